"""Which requests are for which Job, and which Jobs two owners make."""

from collections import Counter
from collections.abc import Iterable

from accelet.provisioner.books.grouped import Grouped, count_by
from accelet.provisioner.record import SliceRequest

_Job = tuple[str, str]
"""The namespace and name of a Job."""

_SetKey = tuple[str, str]


class JobBook:
    """Requests by their Job. A Job is contested while requests of several owners are for it."""

    def __init__(self) -> None:
        self._of_job: Grouped[_Job] = Grouped()
        self._of_owner: Grouped[str] = Grouped()
        self._owners: dict[_Job, Counter[str]] = {}
        self._sets: dict[_Job, Counter[_SetKey]] = {}
        self._contested: dict[_SetKey, dict[_Job, None]] = {}

    def add(self, request: SliceRequest) -> None:
        owner = request.spec.owner
        if owner is None:
            return
        job = request.namespace, owner.job
        self._of_owner.put(owner.uid, request)
        self._of_job.put(job, request)
        self._count(job, request.set_key, owner.uid, 1)

    def remove(self, request: SliceRequest) -> None:
        """Takes a request out that was added as it is."""
        owner = request.spec.owner
        if owner is None:
            return
        job = request.namespace, owner.job
        self._of_owner.drop(owner.uid, request)
        self._of_job.drop(job, request)
        self._count(job, request.set_key, owner.uid, -1)

    def of_owner(self, uid: str) -> list[SliceRequest]:
        return self._of_owner.of(uid)

    def count_of_owner(self, uid: str) -> int:
        return self._of_owner.size(uid)

    def of_jobs(self, jobs: Iterable[_Job]) -> list[SliceRequest]:
        """The requests for these Jobs, ordered by their keys."""
        return sorted(self._of_job.of_all(jobs), key=lambda one: one.key)

    def contested(self, set_key: _SetKey) -> list[_Job]:
        """The Jobs of a set that several owners make."""
        return list(self._contested.get(set_key, ()))

    def _count(self, job: _Job, set_key: _SetKey, owner: str, change: int) -> None:
        owners, sets = self._owners.setdefault(job, Counter()), self._sets.setdefault(job, Counter())
        was_contested = len(owners) > 1
        count_by(owners, owner, change)
        count_by(sets, set_key, change)
        is_contested = len(owners) > 1
        for key in (set_key,) if is_contested == was_contested else {*sets, set_key}:
            self._note(job, key, is_contested=is_contested and key in sets)
        if not owners:
            del self._owners[job], self._sets[job]

    def _note(self, job: _Job, set_key: _SetKey, *, is_contested: bool) -> None:
        if is_contested:
            self._contested.setdefault(set_key, {})[job] = None
        elif set_key in self._contested:
            self._contested[set_key].pop(job, None)
            if not self._contested[set_key]:
                del self._contested[set_key]
