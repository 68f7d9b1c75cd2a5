"""The sums over the slices of one set."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from accelet.control.walltime import believed_until_s
from accelet.kinds.slicerequest import SliceOwner
from accelet.provisioner.books.grouped import count_by
from accelet.provisioner.deciding.ranked import Ranked
from accelet.provisioner.deciding.view import GATHERING, HELD, RestOfSet, progress_of
from accelet.provisioner.record import SliceRequest

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked of the state on behalf of a set, and the time by which it is judged.

    `is_wanted` says whether the slices of an owner are wanted, `is_whole` whether one slice has its machines.
    `hold_s` is how long a slice waits for the next progress of its set.
    """

    is_wanted: Callable[[str, SliceOwner | None], bool]
    is_whole: Callable[[SliceRequest], bool]
    now_s: float
    hold_s: float


@dataclass(slots=True, eq=False)
class _Alike:
    """The slices of a set that are wanted alike: those of one owner, and apart from them the deleted ones."""

    namespace: str
    owner: SliceOwner | None
    is_deleted: bool
    count: int = 0
    unheld: int = 0
    gathering: Counter[str] = field(default_factory=Counter)
    progress: Ranked = field(default_factory=Ranked)
    stale: dict[_Key, SliceRequest] = field(default_factory=dict)
    """Those that are to be looked at before it is known whether they are whole."""

    broken: set[_Key] = field(default_factory=set)
    """Those that were found not whole."""

    def is_wanted(self, asking: Asking) -> bool:
        return not self.is_deleted and asking.is_wanted(self.namespace, self.owner)

    def are_whole(self, asking: Asking, but: _Key | None) -> bool:
        """Whether all have their machines, `but` left out; looks at those alone that have changed."""
        for key, request in self.stale.items():
            (self.broken.discard if asking.is_whole(request) else self.broken.add)(key)
        self.stale.clear()
        return not self.broken - {but}


@dataclass(slots=True, eq=False)
class _Known:
    """A slice as it was counted."""

    request: SliceRequest
    progress_s: float
    alike: _Alike

    @property
    def resting_until_s(self) -> float | None:
        return self.request.record.retry_s if self.request.status.phase == "BackingOff" else None

    @property
    def dry_tiers(self) -> frozenset[str]:
        status = self.request.status
        return frozenset(() if status.phase == "BackingOff" else status.dry_tiers)

    @property
    def is_unheld(self) -> bool:
        return self.request.status.phase not in HELD

    @property
    def is_used(self) -> bool:
        record = self.request.record
        return not (record.unused or record.is_lapsed)


@dataclass(slots=True, eq=False)
class SetSums:
    """The sums of one set."""

    known: dict[_Key, _Known] = field(default_factory=dict)
    alike: dict[object, _Alike] = field(default_factory=dict)
    attentive: dict[_Key, None] = field(default_factory=dict)
    """Those that may do something else when others change."""

    sizes: Counter[int] = field(default_factory=Counter)
    resting: Ranked = field(default_factory=Ranked)
    dry: Counter[str] = field(default_factory=Counter)
    used: int = 0

    def add(self, request: SliceRequest, *, is_listed: bool, is_attentive: bool) -> None:
        alike = _join_alike(self.alike, request)
        known = _Known(request, progress_of(request.record, is_listed=is_listed), alike)
        self.known[request.key] = known
        self.sizes[request.spec.slice_set.size] += 1
        if is_attentive:
            self.attentive[request.key] = None
        if known.resting_until_s is not None:
            self.resting.add(known.resting_until_s)
        self.dry.update(known.dry_tiers)
        self.used += known.is_used
        alike.count += 1
        alike.unheld += known.is_unheld
        if request.status.phase in GATHERING:
            alike.gathering[request.status.tier] += 1
        alike.progress.add(known.progress_s)
        alike.stale[request.key] = request

    def remove(self, request: SliceRequest) -> None:
        known = self.known.pop(request.key)
        alike = known.alike
        count_by(self.sizes, request.spec.slice_set.size, -1)
        self.attentive.pop(request.key, None)
        if known.resting_until_s is not None:
            self.resting.remove(known.resting_until_s)
        for tier in known.dry_tiers:
            count_by(self.dry, tier, -1)
        self.used -= known.is_used
        alike.count -= 1
        alike.unheld -= known.is_unheld
        if request.status.phase in GATHERING:
            count_by(alike.gathering, request.status.tier, -1)
        alike.progress.remove(known.progress_s)
        alike.stale.pop(request.key, None)
        alike.broken.discard(request.key)
        if not alike.count:
            del self.alike[_alike_key(request)]

    def touch(self, request: SliceRequest) -> None:
        """The machines of one may be other ones now."""
        self.known[request.key].alike.stale[request.key] = request

    @property
    def is_mixed(self) -> bool:
        """Whether requests of several owners are of this set."""
        return len({alike.owner and alike.owner.uid for alike in self.alike.values()}) > 1

    def rest_of(self, request: SliceRequest, asking: Asking) -> RestOfSet:
        """All others than `request`."""
        own = self._own(request)
        rested_s = own.resting_until_s if own is not None else None
        dry_tiers = own.dry_tiers if own is not None else frozenset[str]()
        wanted = [alike for alike in self.alike.values() if alike.is_wanted(asking)]
        return RestOfSet(
            known=len(self.known) - (own is not None),
            wanted=sum(alike.count for alike in wanted) - (own is not None and own.alike in wanted),
            is_whole=request.status.phase == "Joined" and _are_whole(wanted, own, asking),
            progress_s=_progress_of(wanted, own, asking),
            held_tiers=frozenset(_held_tiers(wanted, own)),
            resting_until_s=self.resting.largest(without=rested_s),
            dry_tiers=frozenset(tier for tier, count in self.dry.items() if count > (tier in dry_tiers)),
            is_unused=self.used == (own is not None and own.is_used),
        )

    def is_news(self, before: SliceRequest | None, after: SliceRequest | None, asking: Asking) -> bool:
        """Whether others may have waited for a change of one.

        That one is held makes a difference once all are. One more makes a difference where it is the last.
        """
        if after is None or _said_to_set(before) != _said_to_set(after):
            return True
        if before is None and len(self.known) in self.sizes:
            return True
        if after.status.phase not in HELD or (before is not None and before.status.phase in HELD):
            return False
        wanted = (alike for alike in self.alike.values() if alike.is_wanted(asking))
        return _are_held(wanted, self._own(after))

    def _own(self, request: SliceRequest) -> _Known | None:
        known = self.known.get(request.key)
        return known if known is not None and known.request.uid == request.uid else None


def _said_to_set(request: SliceRequest | None) -> object:
    """What of a slice may have others of its set do something at once, but for being held."""
    if request is None:
        return False, 0.0, (), False
    record, is_resting = request.record, request.status.phase == "BackingOff"
    return is_resting, record.retry_s if is_resting else 0.0, record.dry_tiers, request.is_deleted


def _alike_key(request: SliceRequest) -> object:
    owner = request.spec.owner
    return request.is_deleted, (owner.kind, owner.name, owner.uid) if owner is not None else None


def _join_alike(known: dict[object, _Alike], request: SliceRequest) -> _Alike:
    key = _alike_key(request)
    if key not in known:
        known[key] = _Alike(request.namespace, request.spec.owner, request.is_deleted)
    return known[key]


def _are_held(wanted: Iterator[_Alike] | Collection[_Alike], own: _Known | None) -> bool:
    """Whether all others that are wanted were whole."""
    return all(
        not alike.unheld - (own is not None and own.alike is alike and own.is_unheld) for alike in wanted
    )


def _are_whole(wanted: Collection[_Alike], own: _Known | None, asking: Asking) -> bool:
    but = own.request.key if own is not None else None
    return _are_held(wanted, own) and all(alike.are_whole(asking, but) for alike in wanted)


def _progress_of(wanted: Collection[_Alike], own: _Known | None, asking: Asking) -> float:
    at_most = believed_until_s(asking.now_s, asking.hold_s)
    found_s = 0.0
    for alike in wanted:
        without = own.progress_s if own is not None and own.alike is alike else None
        found_s = max(found_s, alike.progress.largest(without=without, at_most=at_most) or 0.0)
    return found_s


def _held_tiers(wanted: Collection[_Alike], own: _Known | None) -> Iterator[str]:
    for alike in wanted:
        is_own = own is not None and own.alike is alike and own.request.status.phase in GATHERING
        for tier, count in alike.gathering.items():
            if count > (own is not None and is_own and own.request.status.tier == tier):
                yield tier
