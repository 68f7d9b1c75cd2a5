"""The shape of a box of TPU chips: chips along x, y and z."""

import math
import re
from dataclasses import dataclass
from typing import Final

from accelet.accelerators.errors import AcceleratorError

_TEXT: Final = re.compile(r"[1-9][0-9]{0,3}([x,][1-9][0-9]{0,3}){0,2}")


class ShapeError(AcceleratorError, ValueError):
    """A text that is no shape, as a sentence."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Chips along x, y and z, each one or more; `2x4` is `2x4x1`."""

    x: int
    y: int = 1
    z: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """Reads `2x4`, `2x2x4` or the same with commas, as the bounds variables have it.

        Raises:
            ShapeError: it is something else.
        """
        if not _TEXT.fullmatch(text) or ("x" in text and "," in text):
            raise ShapeError(f"{text!r} is not a shape of chips such as 2x4 or 2x2x4")
        return cls(*(int(part) for part in re.split("[x,]", text)))

    @property
    def dims(self) -> tuple[int, int, int]:
        return (self.x, self.y, self.z)

    @property
    def chips(self) -> int:
        return math.prod(self.dims)

    @property
    def bounds(self) -> str:
        """As libtpu's bounds variables have it: `2,4,1`."""
        return ",".join(str(dim) for dim in self.dims)

    def text(self, dimensions: int) -> str:
        """As TPU_TOPOLOGY has it: `2x4` in two dimensions, `2x2x1` in three."""
        kept = self.dims[:2] if dimensions == 2 and self.z == 1 else self.dims
        return "x".join(str(dim) for dim in kept)

    def times(self, other: "Shape") -> "Shape":
        """The shape of a grid of this many boxes of `other`."""
        return Shape(*(one * two for one, two in zip(self.dims, other.dims, strict=True)))

    def divided_by(self, part: "Shape") -> "Shape | None":
        """How many boxes of `part` lie along each dimension; None if they do not fill this one."""
        if any(whole % piece for whole, piece in zip(self.dims, part.dims, strict=True)):
            return None
        return Shape(*(whole // piece for whole, piece in zip(self.dims, part.dims, strict=True)))
