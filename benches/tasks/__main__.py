"""`make bench-tasks`: from submit to Job, memory with 1,000 tasks, status writes in a life, moves."""

import asyncio
import os

from benches.tasks import moves
from benches.tasks.running import measure_life, measure_present

_TASKS, _RANKS, _MORE, _LIVES = 1_000, 4, 300, 40


def main() -> None:
    """Prints one line a figure."""
    _say(f"load {os.getloadavg()[0]:.0f}; {_TASKS:,} tasks of {_RANKS} ranks run")
    present = asyncio.run(measure_present(_TASKS, _RANKS, _MORE))
    _say(f"resident memory: {present.memory_mib:.0f} MiB (aim 120)")
    _say(
        f"from submit to Job, {_MORE} more tasks at 20 a second: "
        f"median {present.median_ms:.0f} ms, p99 {present.p99_ms:.0f} ms"
    )
    life = asyncio.run(measure_life(_LIVES, _RANKS))
    _say(f"status writes of a task from submit to its end, on average and at most: {life[0]:.1f}, {life[1]}")
    moves.main(moves.INSTANCES)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the command is for


if __name__ == "__main__":
    main()
