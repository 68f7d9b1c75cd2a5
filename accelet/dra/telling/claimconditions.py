"""Writes into the status of claims what is ill of what they hold, and what is well again."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from accelet.dra.lateapi import Connect
from accelet.dra.pool import Atom
from accelet.dra.preparing.claim import RESOURCE_CLAIMS
from accelet.dra.preparing.conditions import find_conditions, render_conditions
from accelet.dra.preparing.entry import Entry
from accelet.kube.client import Client
from accelet.kube.errors import KubeError, NotFoundError, UnavailableError
from accelet.runtime.backoff import Backoff
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log

LOOK_S: Final = 600.0
"""How often what is written is looked at without any news."""

_log = Log(__name__)

Held = Mapping[tuple[str, str], tuple[Entry, frozenset[Atom]]]
"""Prepared claims, and which parts that they hold are ill."""


class ClaimConditions:
    """Keeps the condition `Ready` of the devices of one driver's claims, while `run` runs.

    Nothing waits for it: where it must not write, claims are prepared all the same.
    """

    def __init__(self, connect: Connect, driver: str) -> None:
        self._connect, self._driver = connect, driver
        self._held: Held | None = None
        self._sick: Mapping[Atom, str] = {}
        self._unsaid: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._failing = Failing(_log, "cannot write the status of claims", tells_each=True, named="reason")

    def tell(self, entries: Iterable[Entry], sick: Mapping[Atom, str]) -> None:
        """From here on this is what claims hold, and what of it is ill.

        At first every claim is looked at, as an earlier agent may have left words; later what changed.
        """
        before, self._sick = self._held, sick
        self._held = {entry.key: (entry, _atoms(entry) & sick.keys()) for entry in entries}
        for key, (_, ill) in self._held.items():
            if before is None or ill != (before[key][1] if key in before else frozenset()):
                self._unsaid.add(key)
        if self._unsaid:
            self._wake.set()

    async def run(self) -> None:
        """Writes for ever."""
        client = await self._connect()
        backoff = Backoff(first_s=1.0, most_s=300.0)
        while True:
            self._wake.clear()
            backoff = backoff.worked() if await self._say_all(client) else backoff.failed()
            wait_s = backoff.wait_s if self._unsaid else LOOK_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            if not self._unsaid:  # nothing is new: whether what is ill still says so, and why
                self._unsaid = {key for key, (_, ill) in (self._held or {}).items() if ill}

    async def _say_all(self, client: Client) -> bool:
        """Writes what is not said; whether nothing failed. What is told meanwhile stays for the next time."""
        failed = set[tuple[str, str]]()
        for key in list(self._unsaid):
            entry, _ = (self._held or {}).get(key, (None, None))
            self._unsaid.discard(key)
            try:
                if entry is not None:
                    await self._say(client, entry)
            except KubeError as error:
                self._failing.failed(error)
                failed.add(key)
                if isinstance(error, UnavailableError):  # each of the others would wait as long
                    break
        self._unsaid |= failed
        if not failed:
            self._failing.worked()
        return not failed

    async def _say(self, client: Client, entry: Entry) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with suppress(NotFoundError):
            raw = await client.get(RESOURCE_CLAIMS, entry.namespace, entry.name)
            conditions = find_conditions(raw, self._driver, entry, self._sick, now)
            if conditions is not None:
                body = render_conditions(entry, self._driver, conditions)
                await client.patch(
                    RESOURCE_CLAIMS,
                    entry.namespace,
                    entry.name,
                    body,
                    "apply",
                    subresource="status",
                    field_manager=self._driver,
                )


def _atoms(entry: Entry) -> frozenset[Atom]:
    return frozenset(atom for hold in entry.holds for atom in hold.atoms)
