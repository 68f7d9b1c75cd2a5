"""What can go wrong between us and the kubelet.

    KubeletError
    ├── CheckpointError               the kubelet's device checkpoint cannot be read or understood
    │   └── MalformedCheckpointError  what stands in it cannot be understood
    └── PodResourcesError             podresources did not answer as expected
        ├── PodResourcesUnavailableError   nobody answers: no socket, connection refused, too late
        ├── RateLimitedError               refused by the kubelet's rate limit for as long as we would wait
        └── MethodDisabledError            this kubelet does not offer the method

The text of each is a sentence for people.
"""


class KubeletError(Exception):
    """Base of everything this package raises."""


class CheckpointError(KubeletError):
    """The kubelet's device checkpoint cannot be read or understood; what it says is unknown, not empty."""


class MalformedCheckpointError(CheckpointError):
    """What stands in the checkpoint cannot be understood, and will not be until another is written."""


class PodResourcesError(KubeletError):
    """Podresources did not answer as expected."""


class PodResourcesUnavailableError(PodResourcesError):
    """Nobody answers on the podresources socket, or not in time."""


class RateLimitedError(PodResourcesError):
    """The kubelet's rate limit (100 a second, burst 10, for all clients together) refused every try."""


class MethodDisabledError(PodResourcesError):
    """The kubelet does not offer the method: too old, or switched off by a feature gate."""
