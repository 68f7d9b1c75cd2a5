"""One leader at a time, by a Lease of the API server."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from accelet.control.leaserecord import (
    LeaseRecord,
    Observation,
    Renew,
    Take,
    Wait,
    decide,
    observe,
    parse_lease,
)
from accelet.kube.apiresources import LEASES, ObjectApi
from accelet.kube.errors import ConflictError, KubeError, NotFoundError
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within
from accelet.runtime.logs import Log

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Terms:
    """The times of an election, as those of Kubernetes' own controllers.

    A leader that could not renew for `renew_within_s` stops; others wait `duration_s` from the renewal
    they saw last. The difference is the leader's time to stop, and covers clocks that run unequally fast.
    """

    duration_s: int = 15
    renew_within_s: float = 10.0
    retry_s: float = 2.0


class Election:
    """Candidate `me` (unique among all, and changed by each start) for the lease of a namespace and name.

    Give it a client of its own: a renewal must not queue behind other requests.
    """

    def __init__(
        self,
        api: ObjectApi,
        namespace: str,
        name: str,
        me: str,
        *,
        terms: Terms | None = None,
        clock: Clock = SYSTEM_CLOCK,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._api, self._namespace, self._name, self._me = api, namespace, name, me
        self._terms, self._uniform = terms or Terms(), uniform
        self._clock = clock
        self._seen: Observation | None = None
        self._until_s: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate may act now. Ask before each write: a stalled process learns it here."""
        return self._left_s() > 0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Runs `lead` whenever elected, and cancels it when leadership is lost, then stands again.

        Ends when `lead` ends by itself, or by cancellation; the lease is then given back.
        """
        while True:
            await self._win()
            _log.info("leading", lease=self._name, candidate=self._me)
            if await self._reign(lead):
                return
            _log.warning("leadership is lost", lease=self._name, candidate=self._me)

    async def _win(self) -> None:
        while True:
            try:
                if await within(self._clock, self._terms.renew_within_s, self._stand()):
                    return
            except ConflictError:
                pass  # somebody was quicker; the next look shows who it is
            except (KubeError, TimeoutError) as error:
                _log.warning("election fails", lease=self._name, error=str(error))
            await self._pause()

    async def _reign(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Leads until leadership is lost (False) or `lead` has ended (True)."""
        work = asyncio.ensure_future(lead())
        keep = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({work, keep}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                keep.result()
                return False
            work.result()
            return True
        finally:
            # The order is the promise: no work of ours is left when another can take the lease.
            for task in (work, keep):
                task.cancel()
            await asyncio.gather(work, keep, return_exceptions=True)
            await self._release()

    async def _keep(self) -> None:
        """Renews until that has failed for too long, or somebody else holds the lease."""
        while (left_s := self._left_s()) > 0:
            await self._pause(at_most_s=left_s)
            if not self.is_leader:
                break
            try:
                if not await within(self._clock, self._left_s(), self._stand(only_renew=True)):
                    break
            except (KubeError, TimeoutError) as error:
                _log.warning("renewal fails", lease=self._name, error=str(error))
        self._until_s = None

    async def _stand(self, *, only_renew: bool = False) -> bool:
        """One look at the lease and what follows from it; whether it is ours then.

        A leader may `only_renew`: a lease that somebody else had meanwhile is lost, even if free again.
        """
        started_s = self._clock.now_s()
        record = await self._read()
        self._seen = observe(self._seen, record, self._clock.now_s())
        match decide(self._seen, self._me, self._clock.now_s()):
            case Wait():
                return False
            case Take() if only_renew:
                return False
            case Take() | Renew() as step:
                written = step.next_record(record, self._me, self._terms.duration_s, _now())
                await self._write(written, exists=record is not None)
                # Counted from before the request: the API server cannot have taken it earlier.
                self._until_s = started_s + self._terms.renew_within_s
                return True

    async def _release(self) -> None:
        """Lets the next candidate begin at once, if that can be done; it would begin anyway."""
        is_ours, self._until_s = self.is_leader, None
        if not is_ours:
            return
        try:
            record = await within(self._clock, self._terms.retry_s, self._read())
            if record is not None and record.holder == self._me:
                given_back = replace(record, holder="", duration_s=1, renewed=_now())
                await within(self._clock, self._terms.retry_s, self._write(given_back, exists=True))
        except (KubeError, TimeoutError) as error:
            _log.info("the lease was not given back and runs out", lease=self._name, error=str(error))

    async def _read(self) -> LeaseRecord | None:
        try:
            return parse_lease(await self._api.get(LEASES, self._namespace, self._name))
        except NotFoundError:
            return None

    async def _write(self, record: LeaseRecord, *, exists: bool) -> None:
        body = record.to_body(self._namespace, self._name)
        if exists:
            await self._api.replace(LEASES, self._namespace, self._name, body)
        else:
            await self._api.create(LEASES, self._namespace, body)

    def _left_s(self) -> float:
        """For how long it still leads, at least. May be asked on any thread, hence read once."""
        until_s = self._until_s
        return 0.0 if until_s is None else max(0.0, until_s - self._clock.now_s())

    async def _pause(self, at_most_s: float = float("inf")) -> None:
        wait_s = self._uniform(self._terms.retry_s, self._terms.retry_s * 1.2)
        await self._clock.sleep(min(wait_s, at_most_s))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
