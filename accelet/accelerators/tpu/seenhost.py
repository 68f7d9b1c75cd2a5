"""The most chips that a host was seen with: chips that vanish must not make a smaller host of it."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Self

from accelet.accelerators.device import DEVICE_ID_PATTERN, DeviceId
from accelet.accelerators.tpu.generation import Generation

_MOST_CHIPS: Final = 64
_MODEL: Final = re.compile("[a-z0-9-]{1,32}")


@dataclass(frozen=True, slots=True)
class SeenHost:
    """A generation by its name, and chips of it that one host had, in order of their ids.

    Ids are PCI addresses of even length in one domain, so the order is that of the places on the board.
    """

    model: str
    chips: tuple[DeviceId, ...]

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Reads what `text` wrote; None for anything else, which is as good as nothing."""
        model, *ids = (text or "").split(" ")
        if not _MODEL.fullmatch(model) or not 0 < len(ids) <= _MOST_CHIPS:
            return None
        if not all(DEVICE_ID_PATTERN.fullmatch(one) for one in ids) or sorted(set(ids)) != ids:
            return None
        return cls(model, tuple(map(DeviceId, ids)))

    def text(self) -> str:
        return " ".join((self.model, *self.chips))


def remember_host(
    before: SeenHost | None, generation: Generation, found: Collection[DeviceId]
) -> SeenHost | None:
    """What is to be remembered once `found` chips of `generation` were seen; None if there are none.

    Chips that are gone stay remembered. Others in their places, or more together than any host of the
    generation has, are another machine of the same name: what was seen before says nothing of it.
    """
    if not found:
        return before
    if before is None or before.model != generation.name:
        return _seen(generation, found)
    together = {*before.chips, *found}
    if together == {*before.chips}:
        return before
    if together == set(found) or len(together) in generation.chips_per_host:
        return _seen(generation, together)
    return _seen(generation, found)


def _seen(generation: Generation, chips: Iterable[DeviceId]) -> SeenHost:
    return SeenHost(generation.name, tuple(sorted(chips)[:_MOST_CHIPS]))
