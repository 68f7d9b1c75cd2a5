"""One look at one card."""

import errno
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from accelet.accelerators.hostfiles import read_text
from accelet.accelerators.sensors.cardfiles import CardFiles, find_files
from accelet.accelerators.sensors.sample import PCIE_ERRORS, Sample
from accelet.accelerators.sensors.sensorfile import SensorFile, read_number, read_samples

FILES_S = 600.0
"""How long what a card has to tell is believed: a driver may be bound anew, and limits be changed."""

_LONGEST_TEXT = 4096
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


@dataclass(frozen=True, slots=True)
class CardLook:
    """What a card said at `at_s`, of a clock that never goes back.

    `samples` are as the kernel has them: counters from wherever they began. `suspended_s` is how long the
    card has slept since it was found. `errors` is how many files could not be read; not those that are gone.
    """

    at_s: float
    is_active: bool
    suspended_s: float = 0.0
    samples: tuple[Sample, ...] = ()
    errors: int = 0


@dataclass(slots=True)
class CardReader:
    """Reads one card again and again; `card` is its DRM name. Not safe for several threads at once."""

    device: Path
    card: str | None
    _files: CardFiles | None = None
    _limits: tuple[Sample, ...] = ()
    _found_at: float = field(default=float("-inf"))
    _is_partial: bool = False

    def read(self) -> CardLook:
        """Blocks on files, some of which the card's firmware answers: seconds, where it is being reset."""
        at_s = time.monotonic()
        power = f"{self.device}/power"
        suspended_s = (read_number(read_text(f"{power}/runtime_suspended_time") or "") or 0) / 1000
        # A card whose kernel knows nothing of sleep is awake.
        if read_text(f"{power}/runtime_status") not in ("active", "unsupported", None):
            return CardLook(at_s, is_active=False, suspended_s=suspended_s)
        files = _Files(os.path.realpath(self.device))
        if self._files is None or at_s - self._found_at > FILES_S:
            self._files, self._found_at = find_files(Path(files.folder), self.card), at_s
            self._limits = tuple(files.read_all(self._files.limits))
            # A driver makes its sensors after the card, and firmware may be busy: not to be believed long.
            self._is_partial = files.errors > 0 or not self._files.has_sensors
        samples = (*_whole(tuple(files.read_all(self._files.sources)), self._files), *self._limits)
        if files.gone or self._is_partial:
            self._files = None
        return CardLook(at_s, is_active=True, suspended_s=suspended_s, samples=samples, errors=files.errors)


def _whole(samples: tuple[Sample, ...], files: CardFiles) -> tuple[Sample, ...]:
    """Without errors of a severity that not every port on the way told: their sum must not fall."""
    wanted = Counter(source.labels for source in files.sources if source.metric is PCIE_ERRORS)
    told = Counter(one.labels for one in samples if one.metric is PCIE_ERRORS)
    return tuple(
        one for one in samples if one.metric is not PCIE_ERRORS or told[one.labels] == wanted[one.labels]
    )


@dataclass(slots=True)
class _Files:
    folder: str
    gone: int = 0
    errors: int = 0

    def read_all(self, sources: tuple[SensorFile, ...]) -> Iterator[Sample]:
        for source in sources:
            text = self._read(f"{self.folder}/{source.path}")
            if text is not None:
                yield from read_samples(source, text)

    def _read(self, path: str) -> str | None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.read(file, _LONGEST_TEXT).decode(errors="replace").strip()
            finally:
                os.close(file)
        except OSError as error:
            # A fan that somebody else has just read has nothing new to say (EAGAIN): no fault.
            self.gone += error.errno in _GONE
            self.errors += error.errno not in (*_GONE, errno.EAGAIN)
            return None
