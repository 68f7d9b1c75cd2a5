"""Reads of hardware that may never end, each on a thread that can be left behind."""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

from accelet.accelerators.device import Health
from accelet.accelerators.errors import ScanError

ANSWER_S: Final = 2.0
"""How long a scan waits for one unit. Less than a millisecond is usual."""

SCAN_MOST_S: Final = 10.0
"""How long anybody waits for a scan as a whole: for what belongs to no unit, as the list of a folder."""

MOST_HANGING: Final = 64
"""No more reads of one kind hang at a time; beyond that nothing is asked until some of them have ended."""

NO_ANSWER: Final = "no-answer"
"""The code of what is skipped since it never answered."""

_STEP_S: Final = 0.1
_USUAL_STEPS: Final = 2
"""After so many steps the next unit is asked beside the one that has not answered."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def unanswered_health(unit: str) -> Health:
    """That of a unit, `card` or `chip` to people, which a scan waits for no longer."""
    reason = f"the {unit} does not answer: reading its files did not end within {ANSWER_S:g} s"
    return Health(reason, is_unknown=True)


class HardwareReads:
    """Asks units, and goes on without those that do not answer. Not safe for several threads at once.

    A read of sysfs cannot be interrupted: where a driver hangs, so does the thread that reads, for ever
    maybe. So a unit whose read has not ended is not asked again, and holds one thread at most.
    """

    def __init__(self, answer_s: float = ANSWER_S, most_hanging: int = MOST_HANGING) -> None:
        self._steps, self._most_hanging = max(1, round(answer_s / _STEP_S)), most_hanging
        self._hanging: dict[Hashable, _Read] = {}

    def ask(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, T]:
        """What each read returns that ends in time; the keys of the others are absent.

        Keys name units: one whose earlier read has not ended is absent at once. Errors of reads are raised.
        """
        self._hanging = {key: read for key, read in self._hanging.items() if not read.has_ended}
        asked = [_Read(key, call) for key, call in reads.items() if key not in self._hanging]
        _Round(asked).finish(self._steps, self._most_hanging - len(self._hanging))
        ended = [read for read in asked if read.has_ended]
        self._hanging |= {read.key: read for read in asked if read.has_begun and read not in ended}
        for read in ended:
            if read.error is not None:
                raise read.error
        return {read.key: read.result for read in ended}


class TimedScan(Generic[T]):
    """A scan that nobody waits for longer than `most_s`, in seconds. Not safe for several threads at once."""

    def __init__(self, scan: Callable[[], T], most_s: float = SCAN_MOST_S) -> None:
        self._scan, self._most_s = scan, most_s
        self._reads = HardwareReads(most_s)

    def __call__(self) -> T:
        """What the scan returns or raises.

        Raises:
            ScanError: it has not ended in time, or an earlier one has not ended yet.
        """
        answers = self._reads.ask({"scan": self._scan})
        if "scan" not in answers:
            raise ScanError(
                f"reading the hardware's files did not end within {self._most_s:g} s: "
                "see the kernel log for what hangs"
            )
        return answers["scan"]


class _Read:
    """One read; written by its thread, and by whoever waits under the lock of the round."""

    def __init__(self, key: Any, call: Callable[[], Any]) -> None:
        self.key, self._call = key, call
        self.has_begun = self.has_ended = False
        self.steps = 0
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # carried over to whoever asked, as it is
            self.error = error
        self.has_ended = True


class _Round:
    """The reads that are asked for together: one after the other as long as each answers soon."""

    def __init__(self, reads: list[_Read]) -> None:
        self._waiting = deque(reads)
        self._begun: list[_Read] = []
        self._changed = threading.Condition()

    def finish(self, most_steps: int, room: int) -> None:
        """Waits until every read has ended or was given `most_steps`; no more than `room` are under way.

        Time is counted in steps, each of which this thread slept through: where the whole process stands
        still, no read is late for it.
        """
        with self._changed:
            while True:
                running = [read for read in self._begun if not read.has_ended]
                has_room = bool(self._waiting) and len(running) < room
                if has_room and all(read.steps >= _USUAL_STEPS for read in running):
                    self._start()
                elif has_room or any(read.steps < most_steps for read in running):
                    if not self._changed.wait(_STEP_S):
                        for read in running:
                            read.steps += 1
                else:
                    self._waiting.clear()
                    return

    def _start(self) -> None:
        first = self._next()
        assert first is not None, "only called where one waits"
        threading.Thread(target=self._work, args=(first,), name=f"hardware-{first.key}", daemon=True).start()

    def _next(self) -> _Read | None:
        if not self._waiting:
            return None
        read = self._waiting.popleft()
        read.has_begun = True
        self._begun.append(read)
        return read

    def _work(self, read: _Read | None) -> None:
        while read is not None:
            read.run()
            with self._changed:
                read = self._next()
                if read is None:
                    self._changed.notify()
