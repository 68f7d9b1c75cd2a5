"""The slices of each set together, kept up with each change of one of them."""

from typing import Final

from accelet.provisioner.books.grouped import Grouped
from accelet.provisioner.books.sums import Asking, SetSums
from accelet.provisioner.deciding.view import NO_REST, RestOfSet
from accelet.provisioner.pools.pool import NodePool, PoolList
from accelet.provisioner.record import SliceRequest

ALONE: Final = frozenset(("Ready", "Repairing", "Releasing", "Parked", "Refused"))
"""Phases in which a slice asks nothing of its set, but whether all of it is unused."""

_Key = tuple[str, str]


class SetBook:
    """The sets there are. A change, and a question about the rest of a set, cost the same for any size.

    They cost more for a set of which the slices have many owners: whether each is wanted is asked of each.
    """

    def __init__(self, *, is_use_watched: bool) -> None:
        self._is_use_watched = is_use_watched
        self._sets: dict[_Key, SetSums] = {}
        self._single: dict[_Key, SliceRequest] = {}
        """Of sets of which one slice is known, that one: most sets have no other, and need no sums."""

        self._of_pool: Grouped[str] = Grouped()
        self._listed: PoolList | None = None

    def add(self, request: SliceRequest) -> None:
        if request.status.pool:
            self._of_pool.put(request.status.pool, request)
        key = request.set_key
        if key not in self._sets and key not in self._single:
            self._single[key] = request
            return
        if (single := self._single.pop(key, None)) is not None:
            self._sets[key] = SetSums()
            self._sum(single)
        self._sum(request)

    def _sum(self, request: SliceRequest) -> None:
        is_listed = self._listed is not None and request.status.pool in self._listed.names
        is_attentive = request.status.phase not in ALONE or self._is_use_watched
        self._sets[request.set_key].add(request, is_listed=is_listed, is_attentive=is_attentive)

    def remove(self, request: SliceRequest) -> None:
        """Takes a request out that was added as it is."""
        self._of_pool.drop(request.status.pool, request)
        if self._single.pop(request.set_key, None) is not None:
            return
        one = self._sets[request.set_key]
        one.remove(request)
        if not one.known:
            del self._sets[request.set_key]

    def see_list(self, listed: PoolList) -> None:
        """Counts those anew whose pool is another one in a new list."""
        if listed is self._listed:
            return
        before, self._listed = self._listed, listed
        for name in {pool.name for pool in _all_of(before) ^ _all_of(listed)}:
            for request in self._of_pool.of(name):
                self.remove(request)
                self.add(request)

    def note_nodes(self, pool: str) -> None:
        """The Nodes of a pool have changed."""
        for request in self._of_pool.of(pool):
            if request.set_key in self._sets:
                self._sets[request.set_key].touch(request)

    def with_pool(self, pool: str) -> list[SliceRequest]:
        """The requests that have a pool of this name, or had it last."""
        return self._of_pool.of(pool)

    def set_of(self, set_key: _Key) -> list[SliceRequest]:
        """All requests of a set that are known."""
        if (single := self._single.get(set_key)) is not None:
            return [single]
        one = self._sets.get(set_key)
        return [] if one is None else [known.request for known in one.known.values()]

    def is_mixed(self, set_key: _Key) -> bool:
        """Whether requests of several owners say that they are of this set."""
        one = self._sets.get(set_key)
        return one is not None and one.is_mixed

    def rest_of(self, request: SliceRequest, asking: Asking) -> RestOfSet:
        """All others of the set of `request`."""
        one = self._sets.get(request.set_key)
        return NO_REST if one is None else one.rest_of(request, asking)

    def touched(self, before: SliceRequest | None, after: SliceRequest | None, asking: Asking) -> list[_Key]:
        """The others of a set that a change of one may have waited for."""
        changed = after or before
        one = self._sets.get(changed.set_key) if changed is not None else None
        if changed is None or one is None or not one.is_news(before, after, asking):
            return []
        return [key for key in one.attentive if key != changed.key]


def _all_of(listed: PoolList | None) -> set[NodePool]:
    return set() if listed is None else {*listed.pools, *listed.originals}
