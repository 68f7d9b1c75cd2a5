"""What can go wrong with a claim."""


class DraError(Exception):
    """Base of this package's errors. The text is a sentence for the pod's event."""


class ClaimError(DraError):
    """A claim cannot be prepared as it is; trying again changes nothing."""


class NotYetError(DraError):
    """A claim cannot be prepared now; what stands in its way is expected to go."""


class StateError(DraError):
    """The driver's own record of prepared claims is not what it wrote."""
