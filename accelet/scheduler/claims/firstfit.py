"""First fit, as kube-scheduler 1.36 does it for all claims of a pod on one node (allocator_incubating.go).

Claims in the pod's order, requests in theirs, devices in that of the pools. Of alternatives it takes the
first that leads to a whole solution. Each request begins with the first device again; within one it goes on
from the last.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from accelet.claims.cel.failures import SpentError
from accelet.claims.cel.selector import NoAnswer, SeenDevice, read_selector
from accelet.claims.cel.work import Work
from accelet.claims.requests import Claim, DeviceClass, DeviceRequest, Exactly, Held
from accelet.claims.slices import DeviceId, ListedDevice
from accelet.kube.quantity import Quantity
from accelet.kube.selection import Taint
from accelet.scheduler.claims.capacity import has_room, taken
from accelet.scheduler.claims.constraints import Rule, rules_of
from accelet.scheduler.claims.holdings import Holdings
from accelet.scheduler.claims.pools import Pool, TriedNode
from accelet.scheduler.cluster.eligibility import KEEPS_AWAY, first_barrier

MOST_WORK: Final = 2_000_000
"""Units of work for one search, a second or two; kube-scheduler ends one after ten seconds."""

_STEP: Final = 20
"""Units for a device that is tried."""

_START: Final = 1_000
"""Units for a search, whatever comes of it."""

MOST_RESULTS: Final = 32
"""Devices of one claim, by the API server."""

MOST_DEEP: Final = 160
"""Devices and requests of one pod that are searched: each is a step deeper."""


class Why(Enum):
    """Why there is no fit."""

    NO_ROOM = "no room"
    POD_FAILS = "pod fails"
    """kube-scheduler ends with an error for the pod, whatever other nodes have."""
    NODE_FAILS = "node fails"
    UNKNOWN = "unknown"
    """It is not known here what kube-scheduler would do."""


@dataclass(frozen=True, slots=True)
class Served:
    """The devices of each claim, in the order in which they were given."""

    given: tuple[tuple[Held, ...], ...]


@dataclass(frozen=True, slots=True)
class NotServed:
    why: Why
    reason: str


@dataclass(frozen=True, slots=True)
class Supply:
    """What a node can give: `pools` are those of `SliceIndex.pools` for `place`."""

    place: TriedNode
    pools: tuple[Pool, ...]
    holdings: Holdings
    classes: Mapping[str, DeviceClass]


def first_fit(claims: Sequence[Claim], supply: Supply, work: Work | None = None) -> Served | NotServed:
    """What kube-scheduler would give to these claims of one pod, none of which is allocated.

    `work` is what it may take; MOST_WORK without one.
    """
    try:
        return _Search(claims, supply, work or Work(MOST_WORK)).run()
    except _PodFailsError as error:
        return NotServed(Why.POD_FAILS, str(error))
    except _UnknownError as error:
        return NotServed(Why.UNKNOWN, str(error))
    except SpentError:
        return NotServed(Why.UNKNOWN, "too many ways to give the devices: the search was ended")


_ONLY_TOGETHER: Final = (
    "each request has devices of its own, but they do not fit together: "
    "other requests take them, or constraints or counters forbid it"
)


@dataclass(frozen=True, slots=True)
class RequestCount:
    """How many devices of a node match a request, and what becomes of them."""

    name: str
    wanted: int
    free: int
    held: int
    tainted: int
    too_small: int

    def __str__(self) -> str:
        lost = {"held": self.held, "tainted": self.tainted, "without the capacity": self.too_small}
        told = ", ".join(f"{count} {what}" for what, count in lost.items() if count)
        matching = self.free + self.held + self.tainted + self.too_small
        if not matching:
            return f"{self.name}: no device matches"
        told = told or "none held"
        return f"{self.name}: {self.wanted} wanted, {self.free} free of {matching} that match ({told})"


class _PodFailsError(Exception):
    """kube-scheduler ends with an error for the pod."""


class _UnknownError(Exception):
    """What kube-scheduler would do is not known."""


class _TooManyError(Exception):
    """The claim would have more than MOST_RESULTS devices on this way."""


@dataclass(slots=True)
class _Asked:
    """One choice of a request, with its class, and what is known of devices for it."""

    claim: int
    request: DeviceRequest
    choice: Exactly
    selectors: tuple[tuple[str, str | None], ...]
    matched: dict[DeviceId, bool] = field(default_factory=dict)
    every: tuple[tuple[Pool, ListedDevice], ...] = ()

    @property
    def count(self) -> int:
        return len(self.every) if self.choice.count is None else self.choice.count

    @property
    def name(self) -> str:
        return f"{self.request.name}/{self.choice.name}" if self.request.is_list else self.request.name


@dataclass(frozen=True, slots=True)
class _At:
    """Where the search is: the next device of a choice of a request of a claim."""

    claim: int
    request: int = 0
    choice: int | None = None
    device: int = 0
    start: int = 0


class _Search:
    def __init__(self, claims: Sequence[Claim], supply: Supply, work: Work) -> None:
        self._claims, self._supply, self._work = claims, supply, work
        pools, holdings = supply.pools, supply.holdings
        self._seen: dict[DeviceId, SeenDevice | None] = {}
        self._devices = [(pool, device) for pool in pools if pool.problem is None for device in pool.devices]
        self._counters = {(pool.driver, pool.name): _free_counters(pool, holdings) for pool in pools}
        self._rules: list[list[Rule]] = []
        self._asked: list[list[list[_Asked]]] = []
        self._taken: dict[DeviceId, list[int]] = {}
        self._planned: dict[DeviceId, dict[str, Quantity]] = {}
        self._shares: dict[DeviceId, int] = {}
        self._given: list[list[Held]] = [[] for _ in claims]

    def run(self) -> Served | NotServed:
        self._work.spend(_START)
        for at, claim in enumerate(self._claims):
            self._asked.append(self._prepare(at, claim))
            self._rules.append(_rules(claim))
        depth = sum(1 + sum(1 + max(one.count for one in asked) for asked in claim) for claim in self._asked)
        if depth > MOST_DEEP:
            raise _UnknownError(f"more than {MOST_DEEP} requests and devices of one pod are not tried")
        try:
            is_done = self._allocate(_At(0))
        except _TooManyError:
            is_done = False
        if is_done:
            return Served(tuple(map(tuple, self._given)))
        invalid = [pool for pool in self._supply.pools if pool.is_invalid]
        if invalid:
            pool = invalid[0]
            return NotServed(
                Why.NODE_FAILS,
                f"invalid resource pools were encountered: {pool.driver}/{pool.name} {pool.problem}",
            )
        return NotServed(Why.NO_ROOM, self._shortage())

    def _shortage(self) -> str:
        """Which requests find too few devices on the node, whatever the others take."""
        short = []
        for claim in self._asked:
            for choices in claim:
                counts = [self._count(asked) for asked in choices]
                if all(one.free < max(1, one.wanted) for one in counts):
                    short += [str(one) for one in counts]
        return "; ".join(short) or _ONLY_TOGETHER

    def _count(self, asked: _Asked) -> "RequestCount":
        held = barred = small = free = 0
        for _, device in self._devices:
            if not self._matches_surely(asked, device):
                continue
            if self._is_taken(asked, device):
                held += 1
            elif _is_kept_away(device.taints, asked.choice):
                barred += 1
            elif not self._has_room(asked, device):
                small += 1
            else:
                free += 1
        return RequestCount(asked.name, asked.choice.count or 1, free, held, barred, small)

    def _matches_surely(self, asked: _Asked, device: ListedDevice) -> bool:
        try:
            return self._is_selected(asked, device)
        except (_PodFailsError, _UnknownError):
            return False

    # --- what is asked

    def _prepare(self, at: int, claim: Claim) -> list[list[_Asked]]:
        found = [[self._ask(at, request, choice) for choice in request.choices] for request in claim.requests]
        least = sum(min(one.count for one in asked) for asked in found)
        if least > MOST_RESULTS:
            raise _PodFailsError(
                f"{_called(claim)}: {least} devices are asked for, a claim has at most {MOST_RESULTS}"
            )
        return found

    def _ask(self, at: int, request: DeviceRequest, choice: Exactly) -> _Asked:
        claim = self._claims[at]
        where = f"{_called(claim)}, request {choice.name}"
        if None in choice.selectors:
            raise _PodFailsError(f"{where}: a selector has no CEL expression")
        found = self._supply.classes.get(choice.class_name)
        if found is None:
            raise _PodFailsError(f"{where}: there is no DeviceClass {choice.class_name!r}")
        selectors = [(f"class {found.name}", text) for text in found.selectors]
        selectors += [(_called(claim), text) for text in choice.selectors]
        asked = _Asked(at, request, choice, tuple(selectors))
        if choice.count is None:
            asked.every = tuple(self._all_devices(asked, where))
        return asked

    def _all_devices(self, asked: _Asked, where: str) -> Iterator[tuple[Pool, ListedDevice]]:
        for pool in self._supply.pools:
            if pool.problem is not None:
                problem = "is currently invalid" if pool.is_invalid else pool.problem
                raise _PodFailsError(
                    f"{where}: asks for all devices, but resource pool {pool.driver}/{pool.name} {problem}"
                )
            for device in pool.devices:
                if self._is_selected(asked, device) and self._has_room(asked, device):
                    yield pool, device

    def _is_selected(self, asked: _Asked, device: ListedDevice) -> bool:
        known = asked.matched.get(device.id)
        if known is None:
            known = all(self._answer(where, text, device) for where, text in asked.selectors)
            if known and device.reach is not None:
                known = self._supply.place.is_reached(device.reach)
            asked.matched[device.id] = known
        return known

    def _answer(self, where: str, text: str | None, device: ListedDevice) -> bool:
        if text is None:
            raise _UnknownError(f"{where}: a selector has no CEL expression")
        if device.id not in self._seen:
            self._seen[device.id] = device.seen()
        seen = self._seen[device.id]
        if seen is None:
            raise _PodFailsError(f"{where}: {device.id} has an attribute that no selector can read")
        found = read_selector(text).answer(seen, self._work)
        if isinstance(found, NoAnswer):
            message = f"{where}: CEL runtime error for {device.id}: {found.reason}"
            raise _UnknownError(message) if found.is_ours else _PodFailsError(message)
        return found

    # --- the search

    def _allocate(self, at: _At) -> bool:
        """Whether there is a whole solution from here on."""
        if at.claim == len(self._asked):
            return True
        claim = self._asked[at.claim]
        if at.request == len(claim):
            return self._allocate_next_claim(at.claim + 1)
        choices = claim[at.request]
        if at.choice is None and choices[0].request.is_list:
            return self._allocate_first_available(at, len(choices))
        return self._allocate_choice(choices[at.choice or 0], at)

    def _allocate_next_claim(self, claim: int) -> bool:
        try:
            return self._allocate(_At(claim))
        except _TooManyError:
            return False

    def _allocate_choice(self, asked: _Asked, at: _At) -> bool:
        wants_all = asked.choice.count is None
        if wants_all and not asked.every:
            return False
        if at.device >= asked.count:
            return self._allocate(_At(at.claim, at.request + 1))
        if len(self._given[at.claim]) + asked.count - at.device > MOST_RESULTS:
            raise _TooManyError
        if wants_all:
            return self._try(asked, *asked.every[at.device], _next(at, 0))
        return self._allocate_device(asked, at)

    def _allocate_first_available(self, at: _At, count: int) -> bool:
        are_all_too_many = True
        for choice in range(count):
            try:
                if self._allocate(_At(at.claim, at.request, choice)):
                    return True
            except _TooManyError:
                continue
            are_all_too_many = False
        if are_all_too_many:
            raise _TooManyError
        return False

    def _allocate_device(self, asked: _Asked, at: _At) -> bool:
        for position in range(at.start, len(self._devices)):
            pool, device = self._devices[position]
            if self._is_taken(asked, device) or not self._is_selected(asked, device):
                continue
            if self._has_room(asked, device) and self._try(asked, pool, device, _next(at, position + 1)):
                return True
        return False

    def _is_taken(self, asked: _Asked, device: ListedDevice) -> bool:
        if asked.choice.is_admin:
            return asked.claim in self._taken.get(device.id, ())
        return device.id in self._supply.holdings.whole or bool(self._taken.get(device.id))

    def _has_room(self, asked: _Asked, device: ListedDevice) -> bool:
        held = self._supply.holdings.shared.get(device.id, {})
        return has_room(device, asked.choice.capacity, held, self._planned.get(device.id, {}))

    def _try(self, asked: _Asked, pool: Pool, device: ListedDevice, after: _At) -> bool:
        """Whether there is a whole solution with this device for this request."""
        self._work.spend(_STEP)
        draws = {} if device.allows_multiple and self._is_shared_already(device.id) else device.draws
        free = self._counters[pool.driver, pool.name]
        if self._is_barred(asked, device) or not _has_counters(free, draws):
            return False
        if not self._add_to_rules(asked, device):
            return False
        if not self._has_room(asked, device):
            self._remove_from_rules(asked, len(self._rules[asked.claim]))
            return False
        consumed = taken(device, asked.choice.capacity) if device.allows_multiple else None
        given = self._given[asked.claim]
        _draw(free, draws, -1)
        self._mark(asked, device.id, consumed, 1)
        given.append(Held(asked.name, device.id, asked.choice.is_admin, consumed))
        is_done = False
        try:
            is_done = self._allocate(after)
        finally:
            if not is_done:
                given.pop()
                self._mark(asked, device.id, consumed, -1)
                _draw(free, draws, 1)
                self._remove_from_rules(asked, len(self._rules[asked.claim]))
        return is_done

    def _is_barred(self, asked: _Asked, device: ListedDevice) -> bool:
        """Whether somebody has the device, or a taint keeps it from the request."""
        choice = asked.choice
        if device.allows_multiple:
            is_taken = not choice.is_admin and device.id in self._supply.holdings.whole
        else:
            is_taken = self._is_taken(asked, device)
        return is_taken or _is_kept_away(device.taints, choice)

    def _add_to_rules(self, asked: _Asked, device: ListedDevice) -> bool:
        for count, rule in enumerate(self._rules[asked.claim]):
            if not rule.add(asked.request, asked.choice, device):
                self._remove_from_rules(asked, count)
                if asked.choice.count is None:
                    raise _PodFailsError(
                        f"{_called(self._claims[asked.claim])}, request {asked.choice.name}: cannot add "
                        f"{device.id} because a claim constraint would not be satisfied"
                    )
                return False
        return True

    def _remove_from_rules(self, asked: _Asked, count: int) -> None:
        for rule in self._rules[asked.claim][:count]:
            rule.remove(asked.request, asked.choice)

    def _is_shared_already(self, device: DeviceId) -> bool:
        return bool(self._supply.holdings.shared.get(device) or self._shares.get(device))

    def _mark(
        self, asked: _Asked, device: DeviceId, consumed: Mapping[str, Quantity] | None, sign: int
    ) -> None:
        if consumed is None:
            holders = self._taken.setdefault(device, [])
            if sign > 0:
                holders.append(asked.claim)
            else:
                holders.remove(asked.claim)
            return
        self._shares[device] = self._shares.get(device, 0) + sign
        planned = self._planned.setdefault(device, {})
        for name, amount in consumed.items():
            planned[name] = planned.get(name, 0) + sign * amount


def _next(at: _At, start: int) -> _At:
    return _At(at.claim, at.request, at.choice or 0, at.device + 1, start)


def _called(claim: Claim) -> str:
    return f"claim {claim.namespace}/{claim.name}"


def _rules(claim: Claim) -> list[Rule]:
    for at, one in enumerate(claim.constraints):
        if one.attribute is None:
            raise _PodFailsError(f"{_called(claim)}, constraint #{at}: it is of no kind that is known")
    return rules_of(claim.constraints)


def _is_kept_away(taints: Sequence[Taint], choice: Exactly) -> bool:
    """Taints with the effect None keep nobody away, as on nodes those that only advise."""
    return first_barrier((one for one in taints if one.effect in KEEPS_AWAY), choice.tolerations) is not None


_Free = dict[str, dict[str, Quantity]]


def _free_counters(pool: Pool, holdings: Holdings) -> _Free:
    """What is left of a pool's counters beside all devices that are held, on whatever node."""
    free = {name: dict(amounts) for name, amounts in pool.counters.items()}
    for device in (*pool.devices, *pool.elsewhere):
        if holdings.holds(device.id):
            _draw(free, device.draws, -1)
    return free


def _has_counters(free: _Free, draws: Mapping[str, Mapping[str, Quantity]]) -> bool:
    """Whether all counters suffice; kube-scheduler looks at the whole pool wherever a device draws."""
    if not draws:
        return True
    return all(
        left >= draws.get(set_name, {}).get(name, 0)
        for set_name, amounts in free.items()
        for name, left in amounts.items()
    )


def _draw(free: _Free, draws: Mapping[str, Mapping[str, Quantity]], sign: int) -> None:
    for set_name, amounts in draws.items():
        for name, amount in amounts.items():
            free[set_name][name] += sign * amount
