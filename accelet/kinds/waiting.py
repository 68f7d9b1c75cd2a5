"""Why a gang waits: one annotation on its first pod, which the scheduler writes for whoever owns the gang."""

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

WAITING_ANNOTATION: Final = "accelet.dev/waiting"

_MOST_TEXT: Final = 900
_MOST_BYTES: Final = 8192


class WaitingReason(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`pods` of a gang wait since `since`. `text` is the planner's sentence for people.

    `cause`: pods are still to be created (`Incomplete`), something about them forbids it (`Refused`), there
    is no room (`NoRoom`), or that was not proven with the work one gang may take (`Undecided`).
    """

    since: Annotated[datetime, Meta(tz=True)]
    text: Annotated[str, Meta(max_length=_MOST_TEXT)]
    cause: Literal["Incomplete", "Refused", "NoRoom", "Undecided"]
    pods: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


_DECODER = msgspec.json.Decoder(WaitingReason)


def render_waiting(reason: WaitingReason) -> str:
    """The annotation's text; a long sentence is cut."""
    text = " ".join(reason.text.split())
    cut = text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
    return msgspec.json.encode(msgspec.structs.replace(reason, text=cut)).decode()


def parse_waiting(text: str) -> WaitingReason | None:
    """What the annotation says; None for none, and for one that says nothing that can be read."""
    if not text or len(text) > _MOST_BYTES:
        return None
    try:
        reason = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return msgspec.structs.replace(reason, text=" ".join(reason.text.split()))
