"""A folder outside every checkout for what is slow to make and made only once."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """$XDG_CACHE_HOME/accelet/<kind>, made when it is not there."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "accelet" / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path, say_waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a lock file among all processes of this machine; the kernel drops it when its holder dies."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say_waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
