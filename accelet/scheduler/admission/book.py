"""What Kueue has: Workloads, our checks, flavors; kept up with events, without I/O or clock."""

from collections import defaultdict
from collections.abc import Sequence

from accelet.kube.objects import ObjectKey
from accelet.kube.watching.store import precedes
from accelet.scheduler.admission.kueue import CONTROLLER, AdmissionCheck, KueueWorkload, ResourceFlavor
from accelet.scheduler.admission.placeholders import gang_to_come
from accelet.scheduler.gangs.grouping import GangKey


class AdmissionBook:
    """Workloads by key and by the gang of their pods; what is older than what is known is ignored."""

    def __init__(self) -> None:
        self.workloads: dict[ObjectKey, KueueWorkload] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self._by_gang: defaultdict[GangKey, set[ObjectKey]] = defaultdict(set)

    @property
    def our_checks(self) -> frozenset[str]:
        """The names of the checks that this scheduler evaluates."""
        return frozenset(check.name for check in self.checks.values() if check.controller == CONTROLLER)

    def put(self, workload: KueueWorkload) -> None:
        known = self.workloads.get(workload.key)
        if known is not None:
            if known.uid == workload.uid and precedes(workload.resource_version, known.resource_version):
                return
            self._forget(known)
        self.workloads[workload.key] = workload
        gang = gang_to_come(workload)
        if gang is not None:
            self._by_gang[gang].add(workload.key)

    def renew(self, workload: KueueWorkload) -> None:
        """A Workload as an answer to a request has it, which may come after the watch's news of its end."""
        known = self.workloads.get(workload.key)
        if known is not None and known.uid == workload.uid:
            self.put(workload)

    def remove(self, key: ObjectKey) -> None:
        known = self.workloads.pop(key, None)
        if known is not None:
            self._forget(known)

    def open_workloads(self) -> Sequence[ObjectKey]:
        """Those that wait to be admitted, with quota."""
        return [
            key
            for key, workload in self.workloads.items()
            if workload.reserved_s is not None and not workload.is_admitted
        ]

    def workloads_of(self, gang: GangKey) -> Sequence[ObjectKey]:
        """The Workloads whose pods are this gang."""
        return tuple(self._by_gang.get(gang, ()))

    def _forget(self, workload: KueueWorkload) -> None:
        gang = gang_to_come(workload)
        if gang is not None:
            self._by_gang[gang].discard(workload.key)
            if not self._by_gang[gang]:
                del self._by_gang[gang]
