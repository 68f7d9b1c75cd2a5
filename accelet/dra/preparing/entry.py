"""A claim that is prepared on this node, as the driver remembers it."""

from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from accelet.dra.preparing.hold import DeviceHold, Holder

EntryKey = tuple[str, str]
"""An allocation of a claim: the claim's UID and the allocation's digest."""

Phase = Literal["started", "completed"]
"""`started`: its files may or may not be there; `completed`: the kubelet may have been told."""


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device as the kubelet is told of it."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One allocation of one claim. `cdi` is the content of its CDI file.

    `boot` is the kernel's boot id when it was prepared. `rest` are fields that another version wrote.
    """

    uid: str
    digest: str
    namespace: str
    name: str
    phase: Phase
    holds: tuple[DeviceHold, ...]
    answers: tuple[PreparedDevice, ...]
    cdi: str
    has_environment: bool = False
    boot: str = ""
    rest: tuple[tuple[str, msgspec.Raw], ...] = field(default=())

    @property
    def key(self) -> EntryKey:
        """An allocation of a claim: the same claim may be allocated anew while it is still prepared."""
        return self.uid, self.digest

    @property
    def holder(self) -> Holder:
        return Holder(f"{self.namespace}/{self.name}", self.holds)

    def completed(self) -> "Entry":
        return replace(self, phase="completed")
