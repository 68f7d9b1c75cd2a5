"""What can keep a controller from its work; each text is a sentence for people."""

from collections.abc import Iterable


class ControlError(Exception):
    """Base of this package's errors."""


class NotLeadingError(ControlError):
    """Another replica may be at work; nothing may be written."""


class UnkeptStatusError(ControlError):
    """The API server took a status and left fields of it out: the kind that it has is of another version."""

    def __init__(self, fields: Iterable[str]) -> None:
        named = ", ".join(sorted(fields))
        super().__init__(f"the API server keeps no {named} of the status: apply this version of the kind")
