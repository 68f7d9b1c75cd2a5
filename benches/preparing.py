"""What Prepare takes beside many prepared claims: `python -m benches.preparing [FOLDER]`.

The record and the CDI files are in FOLDER, or in the working folder: which disk that is decides. The driver's
own code is called in this process, without a kubelet, on the record of a node that has so many claims.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from math import log
from pathlib import Path

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold
from accelet.dra.running.records import ClaimRecords
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

OTHERS = (0, 1_000, 3_000)
ROUNDS, AT_ONCE = 100, 100
CARDS = [f"gpu-0000-{bus:02x}-00-0" for bus in range(AT_ONCE)]
RESOURCE = gpus(*(gpu(bus) for bus in range(AT_ONCE)))


async def main(folder: Path) -> None:
    """Prints the figures."""
    medians = {}
    for count in OTHERS:
        with tempfile.TemporaryDirectory(prefix="preparing-", dir=folder) as name:
            node = Node(Path(name), RESOURCE)
            await _fill(node, count)
            took_s = sorted([await _time_one(node) for _ in range(ROUNDS)])
            medians[count] = statistics.median(took_s)
            together_s = await _time_together(node)
        p50, p99 = (took_s[int(part * (ROUNDS - 1))] * 1000 for part in (0.5, 0.99))
        _print(
            f"beside {count:5} claims: p50 {p50:6.1f} ms, p99 {p99:6.1f} ms; "
            f"{AT_ONCE} at once {together_s * 1000:6.0f} ms"
        )
    few, many = OTHERS[1:]
    exponent = log(medians[many] / medians[few]) / log(many / few)
    _print(f"growth from {few} to {many} claims: exponent {exponent:.2f}")


async def _fill(node: Node, count: int) -> None:
    """Puts claims of other hardware into the record, like one that is prepared."""
    assert isinstance((await node.prepare(CARDS[0]))[CARDS[0]], tuple)
    records = ClaimRecords(node.places)
    (like,) = records.read().values()
    await node.unprepare(CARDS[0])
    others = [_another(like, number) for number in range(count)]
    records.write(ClaimTable(others))


def _another(like: Entry, number: int) -> Entry:
    unit = UnitId(f"{number:04x}-ff-00.0")
    holds: tuple[DeviceHold, ...] = tuple(
        replace(hold, device=f"gpu-{number}", atoms=frozenset({(unit, 0)})) for hold in like.holds
    )
    return replace(like, uid=f"other-{number}", name=f"other-{number}", holds=holds)


async def _time_one(node: Node) -> float:
    begun_s = time.perf_counter()
    outcome = (await node.prepare(CARDS[0]))[CARDS[0]]
    took_s = time.perf_counter() - begun_s
    assert isinstance(outcome, tuple)
    await node.unprepare(CARDS[0])
    return took_s


async def _time_together(node: Node) -> float:
    begun_s = time.perf_counter()
    outcomes = await asyncio.gather(*(node.prepare(card) for card in CARDS))
    took_s = time.perf_counter() - begun_s
    assert all(isinstance(each[card], tuple) for card, each in zip(CARDS, outcomes, strict=True))
    return took_s


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
