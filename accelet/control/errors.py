"""What can keep a controller from its work; each text is a sentence for people."""


class ControlError(Exception):
    """Base of this package's errors."""


class NotLeadingError(ControlError):
    """Another replica may be at work; nothing may be written."""
