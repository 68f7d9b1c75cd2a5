"""Why an expression has no answer."""


class UnreadableError(Exception):
    """The expression cannot be read, or uses what is not served here: nothing is known of its value.

    The API server stores no expression that Kubernetes itself cannot read.
    """


class EvaluationError(Exception):
    """The expression fails for this device, in kube-scheduler too: a missing key, a type that does not fit.

    `&&` and `||` absorb it where their other side decides.
    """


class SpentError(Exception):
    """The work that evaluating may take is used up. Nothing absorbs it."""


class UnknownError(Exception):
    """The value of a part is not known here, though kube-scheduler may know it. Nothing absorbs it."""
