"""What goes wrong while a release is made."""


class ReleaseError(Exception):
    """The text is a sentence for who makes the release: what is wrong, and with what."""
