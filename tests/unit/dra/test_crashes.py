"""The disk goes away between any two writes; then the agent is started anew."""

import asyncio
import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from accelet.dra.errors import StateError
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry
from accelet.dra.running.places import Places
from accelet.dra.running.records import ClaimRecords
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

CARDS = gpus(gpu(3, tiles=2), gpu(4, tiles=2), gpu(5, tiles=2))
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Nothing here loses power: that what was written is on the disk is not to be waited for."""

DEVICES = {
    f"gpu-0000-0{bus}-00-0{end}": {(bus, tile) for tile in tiles}
    for bus in (3, 4, 5)
    for end, tiles in (("", (0, 1)), ("-tile-0", (0,)), ("-tile-1", (1,)))
}
"""What each is made of. A claim is named like the one device it was given."""


class DyingRecords(ClaimRecords):
    """Dies before one of its writes, `steps` of them later, and leaves a half-written file or change."""

    def __init__(self, places: Places, steps: int) -> None:
        super().__init__(places)
        self._checkpoint, self._folders, self._steps = places.checkpoint, (places.folder, places.cdi), steps

    def read(self) -> ClaimTable:
        self._live()
        return super().read()

    def write(self, entries: ClaimTable, *, is_synced: bool = True) -> None:
        self._step(".checkpoint.json.dead.tmp")
        super().write(entries, is_synced=is_synced)

    def write_cdi(self, entries: Collection[Entry]) -> int:
        for entry in entries:
            self._step(".k8s.gpu.accelet.dev-claim_dead.json.dead.tmp")
            super().write_cdi([entry])
        return len(entries)

    def remove_cdi(self, entries: Collection[Entry]) -> None:
        for entry in entries:
            self._step()
            super().remove_cdi([entry])

    def _step(self, half: str = "") -> None:
        """Without a name for `half` of it: what is removed is there or is not."""
        self._live()
        self._steps -= 1
        if self._steps == 0 and half:
            for folder in self._folders:
                folder.mkdir(parents=True, exist_ok=True)
            (self._folders["cdi" in half or "k8s" in half] / half).write_text('{"half')
            if self._checkpoint.exists() and "checkpoint" in half:
                with self._checkpoint.open("ab") as file:
                    file.write(b'change sha256=12 {"put": [')
        self._live()

    @property
    def is_dead(self) -> bool:
        return self._steps <= 0

    def _live(self) -> None:
        if self.is_dead:
            raise StateError("the disk is gone")


@dataclass
class Told:
    """What the kubelet was answered last of each claim; `unsure` are those it was told of no outcome.

    `unread` were given back while the record could not be read, so that nodes with such a record can be
    drained. They may be in it still, until the agent has looked twice for whom nobody has.
    """

    held: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)


_rounds = st.lists(
    st.dictionaries(st.sampled_from(sorted(DEVICES)), st.booleans(), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)
"""Calls that come at once: of each claim, whether it is to be prepared or given back."""


@given(_rounds, st.integers(1, 40))
@example([{"gpu-0000-03-00-0": True}, {"gpu-0000-03-00-0": False}], 2)
def test_an_end_between_any_two_writes_loses_nothing_and_gives_nothing_twice(
    rounds: list[dict[str, bool]], steps: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="claims-", dir=MEMORY) as name:
        told = asyncio.run(_play(Path(name), rounds, steps))
        places = Node(Path(name), CARDS).places
        _judge(ClaimRecords(places).read(), places, told)
        asyncio.run(_begin_anew(Path(name), told))


async def _play(root: Path, rounds: list[dict[str, bool]], steps: int) -> Told:
    records = DyingRecords(Node(root, CARDS).places, steps)
    node = Node(root, CARDS, records=lambda _: records)
    told = Told()
    for calls in rounds:
        async with asyncio.TaskGroup() as tasks:
            for claim, is_wanted in calls.items():
                tasks.create_task(_call(node, records, claim, told, is_wanted=is_wanted))
    return told


async def _call(node: Node, records: DyingRecords, claim: str, told: Told, *, is_wanted: bool) -> None:
    outcome = (await node.prepare(claim))[claim] if is_wanted else (await node.unprepare(claim))[claim]
    if isinstance(outcome, StateError):
        told.unsure.add(claim)
        return
    if is_wanted and not isinstance(outcome, tuple):
        return  # refused: as it was
    told.unsure.discard(claim)
    (told.held.add if is_wanted else told.held.discard)(claim)
    if records.is_dead and not is_wanted:
        told.unread.add(claim)
        return
    entries = {entry.name: entry for entry in ClaimRecords(node.places).read().values()}
    assert (claim in entries) == is_wanted, "answered before it was on disk"
    assert not is_wanted or entries[claim].phase == "completed"


def _judge(entries: ClaimTable, places: Places, told: Told) -> None:
    names = {entry.name for entry in entries.values()}
    assert told.held - told.unsure <= names <= told.held | told.unsure | told.unread
    for entry in entries.values():
        if entry.name in told.held - told.unsure:
            files = [path.read_text() for path in places.cdi.glob(f"*{entry.uid}*.json")]
            assert files == [entry.cdi]
    parts = [part for name in names for part in DEVICES[name]]
    assert len(parts) == len(set(parts)), f"given twice: {sorted(names)}"


async def _begin_anew(root: Path, told: Told) -> None:
    """As an agent does at its start; then the kubelet repeats what it had no answer to, and ends all."""
    node, records = Node(root, CARDS), ClaimRecords(Node(root, CARDS).places)
    entries = records.read()
    records.write_cdi(list(entries.values()))
    records.sweep(entries)
    assert len(node.files()) == len(entries)
    for claim in told.unsure:
        assert await node.unprepare(claim) == {claim: None}
    for claim in told.held - told.unsure:
        assert isinstance((await node.prepare(claim))[claim], tuple)
    assert await node.unprepare(*DEVICES) == dict.fromkeys(DEVICES)
    assert isinstance((await node.prepare(*DEVICES))[min(DEVICES)], tuple)
    await node.unprepare(*DEVICES)
    assert records.read() == {}
    assert list(node.cdi.iterdir()) == []
    assert {path.name for path in node.places.folder.iterdir()} <= {"checkpoint.json", "serialize.lock"}
