"""What has changed between two pictures, and how it is told to a browser."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from accelet.kube.watching.silence import Hearing
from accelet.overview.picture import SECTIONS, Box, Boxes, Picture


@dataclass(frozen=True, slots=True)
class PictureChange:
    """Of each section that has changed: the parts that are new or other, and the keys of those gone."""

    put: Mapping[str, Boxes]
    gone: Mapping[str, tuple[str, ...]]

    @property
    def is_empty(self) -> bool:
        return not self.put and not self.gone


def compare(before: Picture, after: Picture) -> PictureChange:
    """What makes `after` of `before`."""
    put: dict[str, dict[str, Box]] = {}
    gone: dict[str, tuple[str, ...]] = {}
    for section in SECTIONS:
        old, new = _boxes(before, section), _boxes(after, section)
        if old is new:
            continue
        other = {key: box for key, box in new.items() if (known := old.get(key)) is not box and known != box}
        lost = tuple(key for key in old if key not in new)
        if other:
            put[section] = other
        if lost:
            gone[section] = lost
    return PictureChange(put, gone)


def whole(picture: Picture) -> PictureChange:
    """The change that makes this picture out of nothing."""
    return compare(Picture(), picture)


def render_event(name: str, change: PictureChange, version: int) -> bytes:
    """A server-sent event: JSON on one line, whatever is in it."""
    text = msgspec.json.encode({"version": version, "put": change.put, "gone": change.gone})
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), version, text)


def render_hearing(hearing: Hearing) -> bytes:
    """The event that says how long the API server has been silent, in seconds."""
    ages_s = {name: round(age_s, 1) for name, age_s in hearing.resources_s.items()}
    text = msgspec.json.encode({"api_s": round(hearing.api_s, 1), "resources_s": ages_s})
    return b"event: heard\ndata: %s\n\n" % text


def _boxes(picture: Picture, section: str) -> Boxes:
    boxes: Boxes = getattr(picture, section)
    return boxes
