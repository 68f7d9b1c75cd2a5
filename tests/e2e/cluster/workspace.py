"""One run's folder, and the journal of its claims which a later run reads when this one has died."""

import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from tests.e2e.cluster.claims import CLAIM_KINDS, Claim

PREFIX = "accelet-e2e-"
JOURNAL = "claims"


@contextmanager
def open_workspace() -> Iterator["Workspace"]:
    """Sweeps what dead runs left, takes a new folder, and gives everything back at the end."""
    sweep()
    run_id = secrets.token_hex(3)
    folder = _root() / f"{PREFIX}{run_id}"
    folder.mkdir(mode=0o700)
    with (folder / "new-journal").open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Under the name others look for it is locked from the first moment.
        Path(journal.name).rename(folder / JOURNAL)
        workspace = Workspace(folder, run_id, journal)
        try:
            yield workspace
        finally:
            workspace.close()


class Workspace:
    """A folder of this run alone, or a part of it, and what was claimed for it.

    Whoever holds the lock on the journal owns everything that is written in it. The kernel drops
    the lock when the owner dies, however it dies: a journal that can be locked is a dead run's.
    """

    def __init__(self, folder: Path, run_id: str, journal: TextIO) -> None:
        self.folder = folder
        self.run_id = run_id
        self._journal = journal
        self._claims: list[Claim] = []
        self._parts: list[Workspace] = []
        self._is_closed = False

    def part(self, name: str) -> "Workspace":
        """A folder in this one which can be closed before it; the name may be used again then."""
        folder = self.folder / name
        folder.mkdir()
        part = Workspace(folder, self.run_id, self._journal)
        self._parts.append(part)
        return part

    def claim(self, claim: Claim) -> None:
        """Writes down what is about to be taken (a process: has just been started)."""
        self._journal.write(json.dumps([type(claim).__name__, asdict(claim)]) + "\n")
        self._journal.flush()
        self._claims.append(claim)

    def close(self) -> None:
        """Gives back everything, the last claim first, and removes the folder."""
        if self._is_closed:
            return
        for part in reversed(self._parts):
            part.close()
        for claim in reversed(self._claims):
            claim.release()
        shutil.rmtree(self.folder)
        self._is_closed = True


def sweep() -> list[str]:
    """Gives back what dead runs left on this machine; returns the names of their folders."""
    swept = []
    for folder in sorted(_root().glob(f"{PREFIX}*")):
        if not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            continue
        journal_path = folder / JOURNAL
        if not journal_path.exists():
            # Its owner is about to make the journal, or died just there: nothing was claimed yet.
            continue
        with journal_path.open() as journal:
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            for line in reversed(journal.read().splitlines()):
                _parse(line).release()
            shutil.rmtree(folder)
            swept.append(folder.name)
    return swept


def _parse(line: str) -> Claim:
    kind, fields = json.loads(line)
    return CLAIM_KINDS[kind](**fields)


def _root() -> Path:
    return Path(tempfile.gettempdir())
