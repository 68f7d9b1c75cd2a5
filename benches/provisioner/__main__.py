"""`make bench-provisioner`: decisions a second, memory with 1,000 requests, requests a slice."""

import asyncio
import os
from itertools import pairwise
from math import log

from benches.provisioner.deciding import measure as measure_decisions
from benches.provisioner.running import measure_calls, measure_giving_back, measure_memory, measure_set

_SLICES, _WAITING, _MORE = 1_000, 20, 20
_SETS = (25, 100, 400, 1_000)


def main() -> None:
    """Prints one line a figure."""
    _say(f"load {os.getloadavg()[0]:.0f}; {_SLICES:,} slices of 4 machines each are ready")
    ready, waiting = measure_decisions(_SLICES, _WAITING)
    _say(
        f"decisions a second, of ready slices: {ready:,.0f}; of {_WAITING} that wait for room: {waiting:,.0f}"
    )
    _say(f"resident memory: {asyncio.run(measure_memory(_SLICES)):.0f} MiB (aim 120)")
    costs = asyncio.run(measure_calls(_MORE))
    _say(
        f"creates and deletes a slice: {costs.calls:.1f} (aim 4); "
        f"writes of its SliceRequest: {costs.writes:.1f}"
    )
    _say(f"lists: {costs.lists:.0f} in {costs.seconds:.0f} s of ticks of 1 s, for {_MORE} slices")
    ended = asyncio.run(measure_giving_back(_SLICES))
    _say(
        f"{_SLICES:,} slices given back at one time: {ended.seconds:.0f} s, {ended.processor_s:.0f} s of "
        f"processor time, {ended.writes:.1f} writes a slice"
    )
    sets = {}
    for size in _SETS:
        sets[size] = costs_of_set = asyncio.run(measure_set(size))
        _say(
            f"a set of {size:,} until it is ready: {costs_of_set.processor_s:.1f} s of processor time, "
            f"{costs_of_set.memory_mib:.0f} MiB"
        )
    for few, many in pairwise(_SETS):
        exponent = log(sets[many].processor_s / sets[few].processor_s) / log(many / few)
        _say(
            f"processor time by the size of a set, from {few:,} to {many:,}: exponent {exponent:.2f} (aim 1)"
        )
    _say("aims of a set of 1,000: 30 s of processor time, 120 MiB")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the command is for


if __name__ == "__main__":
    main()
