"""Calls that wait for one another's writes: made together, and each for itself where one fails."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from accelet.dra.errors import StateError
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.running.changes import Forget, Grant
from accelet.dra.running.claimreader import ClaimRef
from accelet.dra.running.groups import MOST_TOGETHER, Groups
from accelet.dra.running.places import Places
from accelet.dra.running.records import ClaimRecords
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

CARDS = [f"gpu-0000-{bus:02x}-00-0" for bus in range(3, 23)]
RESOURCE = gpus(*(gpu(bus) for bus in range(3, 23)))


class CountingRecords(ClaimRecords):
    """Counts how often the record was written."""

    def __init__(self, places: Places, written: list[int]) -> None:
        super().__init__(places)
        self._written = written

    def write(self, entries: ClaimTable, *, is_synced: bool = True) -> None:
        self._written.append(len(entries))
        super().write(entries, is_synced=is_synced)


async def test_claims_that_come_at_once_share_two_writes_of_the_record(tmp_path: Path) -> None:
    written: list[int] = []
    node = Node(tmp_path, RESOURCE, records=lambda places: CountingRecords(places, written))
    outcomes = await asyncio.gather(*(node.prepare(card) for card in CARDS))
    assert all(isinstance(each[card], tuple) for card, each in zip(CARDS, outcomes, strict=True))
    assert len(written) <= 6
    assert len(node.files()) == len(CARDS)


async def test_a_claim_that_is_prepared_is_not_written_again(tmp_path: Path) -> None:
    written: list[int] = []
    node = Node(tmp_path, RESOURCE, records=lambda places: CountingRecords(places, written))
    first = await node.prepare(CARDS[0])
    node.files()[0].unlink()
    assert await node.prepare(CARDS[0]) == first
    assert len(node.files()) == 1
    assert written == [1, 1]


async def test_a_claim_whose_file_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, RESOURCE)
    await node.prepare(CARDS[0])
    (file,) = node.files()
    await node.unprepare(CARDS[0])
    (file / "no file").mkdir(parents=True)
    outcomes = await asyncio.gather(*(node.prepare(card) for card in CARDS))
    assert isinstance(outcomes[0][CARDS[0]], StateError)
    assert all(isinstance(each[card], tuple) for card, each in zip(CARDS[1:], outcomes[1:], strict=True))


async def test_a_call_that_was_given_up_does_not_outlive_the_unprepare_after_it(tmp_path: Path) -> None:
    """Both wait for the same write."""
    node = Node(tmp_path, RESOURCE)
    uid = f"uid-{CARDS[0]}"
    read = await node.reader.read(ClaimRef("ml", CARDS[0], uid), 0)
    made = [
        asyncio.create_task(node.changes.make(change))
        for change in (Forget(frozenset({"another"})), Grant({uid: read}, ()), Forget(frozenset({uid})))
    ]
    await asyncio.sleep(0)
    made[1].cancel()
    await asyncio.wait(made)
    assert ClaimRecords(node.places).read() == {}
    assert node.files() == []


async def test_jobs_are_done_in_order_and_each_group_is_bounded() -> None:
    groups: list[Sequence[int]] = []

    async def work(jobs: Sequence[int]) -> Sequence[int | Exception]:
        groups.append(jobs)
        await asyncio.sleep(0)
        return [-job for job in jobs]

    line: Groups[int, int] = Groups(work)
    jobs = range(3 * MOST_TOGETHER)
    assert await asyncio.gather(*(line.do(job) for job in jobs)) == [-job for job in jobs]
    assert [job for group in groups for job in group] == list(jobs)
    assert max(map(len, groups)) == MOST_TOGETHER


async def test_a_fault_of_all_is_told_to_each_and_the_next_go_on() -> None:
    faults = [StateError("the disk is full")]

    async def work(jobs: Sequence[int]) -> Sequence[int | Exception]:
        await asyncio.sleep(0)
        if faults:
            raise faults.pop()
        return jobs

    line: Groups[int, int] = Groups(work)
    first = await asyncio.gather(line.do(1), line.do(2), return_exceptions=True)
    assert [str(error) for error in first] == ["the disk is full"] * 2
    assert await line.do(3) == 3
