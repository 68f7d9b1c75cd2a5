"""What the agent's process needs of a resource, whatever it is served by, and what it gives to each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from accelet.accelerators.ailments import Ailments
from accelet.accelerators.scancache import ScanCache
from accelet.agent.config import ResourceConfig
from accelet.agent.metrics import AgentMetrics
from accelet.kubelet.paths import KubeletPaths
from accelet.node.audit import Audited
from accelet.node.callsunderway import CallsUnderWay
from accelet.node.inventorymemory import InventoryMemory
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.publishing.cards import CardSource
from accelet.node.unitlocks import UnitLocks
from accelet.runtime.probes import Check
from resourcemanager.holdings.evidence import ContainerKey


@dataclass(frozen=True, slots=True)
class HeldUnit:
    """A container that has a unit of a resource, or a part of it; `pci` is the unit's PCI address."""

    pci: str
    owner: ContainerKey


class ResourceService(CardSource, Protocol):
    """One configured resource, served while `run` runs. The other methods never block."""

    @property
    def config(self) -> ResourceConfig: ...

    @property
    def audited(self) -> Audited | None:
        """What the kubelet was told of it, where that can be compared with the kubelet's own account."""
        ...

    async def run(self) -> None:
        """Serves for ever."""
        ...

    def adopt(self, config: ResourceConfig) -> bool:
        """Goes on with another configuration of the same name, if it can; whether it does."""
        ...

    def check(self) -> Check:
        """Whether it is served, for readiness."""
        ...

    def note_hardware_hint(self) -> None:
        """The hardware may have changed."""
        ...

    def note_kubelet_hint(self) -> None:
        """The kubelet may have restarted, or written its records."""
        ...

    def note_labels(self) -> None:
        """The Node's labels are others."""
        ...

    def held_units(self) -> Iterable[HeldUnit]:
        """Who holds which of its units, where containers do: claims hold what is served through DRA."""
        ...

    def forget_metrics(self) -> None:
        """It is configured no more."""
        ...


ListHealth = Callable[[], Mapping[str, str | None]]
"""The units that there are, each with why it is ill; None for a well one."""

TellHealth = Callable[[str, ListHealth | None], None]
"""Is told, of a resource by its name, how to learn how its units are; None once it is served no more."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What all resources of a process have in common. `root` is the folder where the host's files are seen,
    `node_ip` the node's address where it is known.

    `refresh_cards` is to be called when the cards, or who holds them, were looked at and may be others,
    `tell_health` after each scan. `ailments` are what others know to be wrong with units. `calls` counts the
    kubelet's calls to all of them.
    """

    root: Path
    paths: KubeletPaths
    records: KubeletRecords
    locks: UnitLocks
    scan_cache: ScanCache
    memory: InventoryMemory
    metrics: AgentMetrics
    refresh_cards: Callable[[], None]
    tell_health: TellHealth
    ailments: Ailments
    calls: CallsUnderWay = field(default_factory=CallsUnderWay)
    node_ip: str | None = None
