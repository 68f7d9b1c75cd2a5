"""What can go wrong with a gang; each text is a sentence for people."""

from accelet.kube.pods import Pod


class SchedulerError(Exception):
    """Base of this package's errors."""


class NeedsError(SchedulerError):
    """What a pod asks of cards contradicts itself."""


class VolumeAwaitedError(SchedulerError):
    """A pod can be on no node before one of its volumes is there."""


class UnknownLevelError(SchedulerError):
    """A gang names a level that the topology does not have."""


class BrokenPlanError(SchedulerError):
    """A finished plan breaks a promise: a fault of the scheduler, for which nothing is written."""


class PlanTooLargeError(SchedulerError):
    """A plan does not fit into one ConfigMap."""


class PlanRefusedError(SchedulerError):
    """A plan cannot be written down; the text says why."""


class PartlyRefusedError(SchedulerError):
    """The API server does not allow some of a plan's `pods` to be released, others are; the text says why."""

    def __init__(self, text: str, pods: tuple[Pod, ...]) -> None:
        super().__init__(text)
        self.pods = pods


class RemedyRefusedError(SchedulerError):
    """The API server does not let us evict a pod, or suspend or resume a Job; the text says why."""


class EvictionRefusedError(SchedulerError):
    """A pod cannot be evicted, or not in time, so that its room does not come free; the text says why."""


class LiftRefusedError(SchedulerError):
    """The API server does not allow a plan's pods, like this `pod`, to be released; the text says why."""

    def __init__(self, text: str, pod: Pod) -> None:
        super().__init__(text)
        self.pod = pod
