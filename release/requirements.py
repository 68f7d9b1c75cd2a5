"""Lock files as pip reads them: versions, hashes, and who asked for what."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_PIN: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\$"
)
_HASH: Final = re.compile(r"^\s+--hash=sha256:(?P<hash>[0-9a-f]{64})")
_VIA: Final = re.compile(r"^\s+#\s+(?:via(?:\s+|$))?(?P<source>.*)$")


@dataclass(frozen=True, slots=True)
class Pin:
    """One locked version. `via` are those who asked for it: packages, `accelet (pyproject.toml)`, files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: tuple[str, ...]


def canonical(name: str) -> str:
    """A package's one name of the many that mean it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_versions(text: str) -> dict[str, list[str]]:
    """The versions of each package in a lock file; there are several where Pythons take different ones."""
    found: dict[str, list[str]] = {}
    for pin in parse_pins(text):
        found.setdefault(pin.name, []).append(pin.version)
    return found


def parse_pins(text: str) -> Iterator[Pin]:
    """The pins of a lock file."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        lines = block.splitlines()
        if lines and (pin := _PIN.match(lines[0])):
            hashes = tuple(found["hash"] for line in lines if (found := _HASH.match(line)))
            via = tuple(found["source"] for line in lines if (found := _VIA.match(line)) and found["source"])
            yield Pin(canonical(pin["name"]), pin["version"], pin["marker"] or "", hashes, via)
