"""A process that is killed again and again, whenever it has begun to lead."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from accelet.kube.apiresources import LEASES
from accelet.kube.client import Client
from tests.e2e.test_tasks import running

LIVES_S: Final = 3.0
LEASE_KEPT: Final = 0.25
"""How often the next leader has to wait until the lease of the one before has run out."""


@dataclass
class Killer:
    """Runs a process, and kills it a random time after it has begun to lead; at last leaves it alone.

    `lives_s` is the longest such time, `begins` the line of its log that says that it has begun.
    """

    words: Sequence[str]
    folder: Path
    client: Client
    chance: Random
    most: int
    lives_s: float = LIVES_S
    begins: str = "leading"
    kills: int = 0
    is_leading: bool = False
    led: list[float] = field(default_factory=list)

    async def run(self) -> None:
        log = self.folder / f"{self.words[0]}.log"
        while True:
            before = _length(log)
            async with running(self.folder, *self.words) as process:
                await self._lead(log, before, process)
                self.is_leading = True
                if self.kills >= self.most:
                    await asyncio.Event().wait()
                lives_s = self.chance.uniform(0, self.lives_s)
                await asyncio.sleep(lives_s)
                process.kill()
                self.is_leading = False
                self.kills += 1
                self.led.append(lives_s)
            if self.chance.random() > LEASE_KEPT:
                await self._free_lease()

    async def _lead(self, log: Path, before: int, process: asyncio.subprocess.Process) -> None:
        async with asyncio.timeout(60):
            while not _says(self.begins, log, before):
                assert process.returncode is None, f"see {log}"
                await asyncio.sleep(0.05)

    async def _free_lease(self) -> None:
        """Nobody waits for one who is known to be dead, so that there is more to be killed in the time."""
        name = f"accelet-{self.words[0]}"
        await self.client.patch(LEASES, "kube-system", name, {"spec": {"holderIdentity": ""}}, "merge")


def _length(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _says(message: str, log: Path, before: int) -> bool:
    with log.open("rb") as lines:
        lines.seek(before)
        return f'"{message}"'.encode() in lines.read()
