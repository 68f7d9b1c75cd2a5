"""The simulated hardware of a node under chaos, and what the kubelet should be told of it."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

A, B, C = "gpu.intel.com/i915", "gpu.intel.com/xe", "gpu.intel.com/arc"
RESOURCES = (A, B, C)

_FIRST_SLOT = {A: 3, B: 9, C: 20}
_CARDS = {A: 4, B: 2, C: 2}


class Card(Enum):
    """The state of one card."""

    WELL = "well"
    SICK = "sick"
    GONE = "gone"


@dataclass(slots=True)
class Hardware:
    """The cards of each resource, written to a file that the simulated back-end reads at each scan."""

    folder: Path
    cards: dict[str, list[Card]] = field(
        default_factory=lambda: {name: [Card.WELL] * _CARDS[name] for name in RESOURCES}
    )

    def __post_init__(self) -> None:
        self.folder.mkdir()
        for resource in RESOURCES:
            self._write(resource)

    def set(self, resource: str, index: int, state: Card) -> None:
        """One card changes. A resource's first is never gone: one without devices is not registered."""
        is_first = index % _CARDS[resource] == 0
        self.cards[resource][index % _CARDS[resource]] = (
            Card.SICK if is_first and state is Card.GONE else state
        )
        self._write(resource)

    def healthy(self, resource: str) -> frozenset[str]:
        """The ids that the kubelet should have as healthy."""
        states = enumerate(self.cards[resource])
        return frozenset(self._id(resource, index) for index, state in states if state is Card.WELL)

    def config(self, resource: str, policy: str) -> str:
        """The resource's entry in the configuration."""
        return f"- {{name: {resource}, backend: simulated, file: {self._file(resource)}, policy: {policy}}}\n"

    def _write(self, resource: str) -> None:
        lines = ["cards:"]
        for index, state in enumerate(self.cards[resource]):
            if state is not Card.GONE:
                sick = ", unhealthy: it is sick" if state is Card.SICK else ""
                pci = self._id(resource, index)
                lines.append(
                    f'- {{pci: "{pci}", nodes: [{{path: /dev/null, mount_path: /dev/{pci}}}]{sick}}}'
                )
        fresh = self._file(resource).with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(self._file(resource))

    def _file(self, resource: str) -> Path:
        return self.folder / f"{resource.rpartition('/')[2]}.yaml"

    @staticmethod
    def _id(resource: str, index: int) -> str:
        return f"0000-{_FIRST_SLOT[resource] + index:02x}-00.0"
