"""Who has put a slice aside, who asks for it, and who holds a pool that was another's."""

from collections import defaultdict

from accelet.provisioner.deciding.offers import Party
from accelet.provisioner.record import SliceRequest


class ParkedBook:
    """Requests by what they have to do with others' slices; most have nothing, and are in none of these.

    A slice that is being given back is offered as a parked one, until the provider is asked to delete it.
    """

    def __init__(self) -> None:
        self._known: dict[str, SliceRequest] = {}
        self._parked: dict[str, dict[str, SliceRequest]] = defaultdict(dict)
        self._by_asked: dict[str, dict[str, SliceRequest]] = defaultdict(dict)
        self._by_mark: dict[str, dict[str, SliceRequest]] = defaultdict(dict)

    def set(self, request: SliceRequest) -> None:
        """Takes a request over as it is now."""
        self.remove(request.uid)
        status = request.status
        is_offered = _is_offered(request)
        if is_offered:
            self._parked[request.namespace][request.uid] = request
        if status.asks_of:
            self._by_asked[status.asks_of][request.uid] = request
        if status.mark:
            self._by_mark[status.mark][request.uid] = request
        if is_offered or status.asks_of or status.mark:
            self._known[request.uid] = request

    def remove(self, uid: str) -> None:
        known = self._known.pop(uid, None)
        if known is None:
            return
        for index, key in (
            (self._parked, known.namespace),
            (self._by_asked, known.status.asks_of),
            (self._by_mark, known.status.mark),
        ):
            if uid in index.get(key, {}):
                del index[key][uid]
                if not index[key]:
                    del index[key]

    def parked_in(self, namespace: str) -> list[SliceRequest]:
        return list(self._parked.get(namespace, {}).values())

    def parked(self) -> list[SliceRequest]:
        """All parked slices, of all namespaces."""
        return [one for namespace in self._parked.values() for one in namespace.values()]

    def askers_of(self, request: SliceRequest) -> list[SliceRequest]:
        """Those of its namespace that wait for the parked slice of `request`."""
        asking = self._by_asked.get(request.uid, {}).values()
        return [one for one in asking if one.namespace == request.namespace and one.status.phase == "Pending"]

    def holders_of(self, mark: str) -> list[SliceRequest]:
        """Those that hold a pool with a mark that is not their own."""
        return list(self._by_mark.get(mark, {}).values())

    def holding_like(self, request: SliceRequest) -> list[Party]:
        """Those that may hold what was the pool of `request`."""
        if not self._by_mark:
            return []
        marks = dict.fromkeys((request.uid, request.status.mark))
        return [Party(one.uid, one.record) for mark in marks if mark for one in self.holders_of(mark)]


def _is_offered(request: SliceRequest) -> bool:
    status = request.status
    is_going = status.phase == "Releasing" and not (
        status.parked_at or status.asked_end_at or request.is_forced
    )
    return status.phase == "Parked" or is_going
