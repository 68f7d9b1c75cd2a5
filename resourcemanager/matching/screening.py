"""Finds the pods that the kubelet admitted before it knew the resource, and so without devices.

Until the kubelet has written such a pod's status, it looks like one that is being admitted: it is shown, and
shown without its devices. So whoever is shown so at a registration, when no call can be ours yet, is noted.
Pods that are bound once the kubelet knows the resource cannot be among them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, kubelet_uid
from accelet.kube.watching.store import precedes
from resourcemanager.holdings.evidence import ShownPod
from resourcemanager.holdings.ledger import Ledger
from resourcemanager.matching.candidates import find_missing, list_needs


@dataclass(frozen=True, slots=True)
class Screening:
    """What was found at one registration.

    `is_known`: the kubelet knew the resource before the first pod was asked for. `before` and `after` say of
    each pod that was asked for whether it is shown without its devices: `before`, when no call could be ours
    yet, `after`, when the kubelet knew the resource. `lost`: those of which that cannot be asked any more.
    `is_during_call`: all of `after` were asked for while a call was waiting for its answer. `as_of`: of which
    version the list was that said for whom to ask, when the kubelet knew the resource.
    """

    is_known: bool = False
    is_during_call: bool = False
    before: Mapping[PodUid, bool] = field(default_factory=lambda: MappingProxyType({}))
    after: Mapping[PodUid, bool] = field(default_factory=lambda: MappingProxyType({}))
    lost: frozenset[PodUid] = frozenset()
    as_of: str = ""

    def with_before(self, pod: Pod, shown: ShownPod | None, ledger: Ledger) -> "Screening":
        return replace(self, before={**self.before, kubelet_uid(pod): _lacks(pod, shown, ledger)})

    def with_after(self, pod: Pod, shown: ShownPod | None, ledger: Ledger) -> "Screening":
        return replace(self, after={**self.after, kubelet_uid(pod): _lacks(pod, shown, ledger)})

    def with_lost(self, pods: Iterable[Pod], ledger: Ledger) -> "Screening":
        """`pods` are those that the API server had until lately, and that nobody can be asked for any more.

        One that the kubelet admitted without devices it may be starting still, though it hides it already.
        """
        if self.is_known:
            return self
        lost = frozenset(kubelet_uid(pod) for pod in pods if may_be_skipped(pod, ledger))
        return replace(self, lost=self.lost | lost)

    def with_late(self, pods: Iterable[Pod], ledger: Ledger) -> "Screening":
        """The same for pods that are gone as the watch shows later: those that were gone before the list.

        Such a pod the list did not show, nor the watch, which was behind.
        """
        late = (pod for pod in pods if precedes(pod.resource_version, self.as_of, or_equals=True))
        found = self.with_lost((pod for pod in late if kubelet_uid(pod) not in self.after), ledger)
        return self if found.lost == self.lost else found

    def again(self, *, is_during_call: bool, as_of: str = "") -> "Screening":
        """Before everybody is asked for after the registration, for the first time or again."""
        return replace(
            self, after=MappingProxyType({}), lost=frozenset(), is_during_call=is_during_call, as_of=as_of
        )

    def list_unasked(self, pods: Mapping[PodUid, Pod], ledger: Ledger) -> Iterator[Pod]:
        """The pods still to be asked for.

        `pods` are all of this node at a moment when the kubelet knew the resource, or, until then, those that
        are known.
        """
        done = {**self.before, **self.after} if self.is_known else {**_found(self.before), **self.after}
        return (pod for uid, pod in pods.items() if uid not in done and may_be_skipped(pod, ledger))

    @property
    def lacking(self) -> frozenset[PodUid]:
        """The pods that are shown without their devices, or of which nobody can tell."""
        return self.lost.union(_found(self.before), _found(self.after))

    @property
    def skipped(self) -> frozenset[PodUid]:
        """The pods that were, or may have been, admitted without devices.

        While a call is waiting, a single one that was not shown so before the registration is the caller. One
        that was not asked for then may be either, unless the kubelet knew the resource all the time. So may
        one that is gone: the kubelet may have admitted it after it was asked for.
        """
        lacking = self.lacking
        is_told = self.is_known or lacking <= self.before.keys()
        is_shown_since = is_told and not self.lost and not _found(self.before)
        is_caller = self.is_during_call and len(lacking) == 1 and is_shown_since
        return frozenset() if is_caller else lacking


def may_be_skipped(pod: Pod, ledger: Ledger) -> bool:
    """Whether nothing but podresources tells if the kubelet has admitted the pod without devices.

    It gives none of a resource it does not know: a pod that has some was not skipped. What a kubelet before
    it recorded it may have rejected.
    """
    is_waiting = not (pod.is_terminal or pod.is_mirror or pod.has_started or pod.statuses)
    return (
        is_waiting
        and bool(list_needs(pod, ledger.resource))
        and kubelet_uid(pod) not in ledger.checkpointed_pods
    )


def _lacks(pod: Pod, shown: ShownPod | None, ledger: Ledger) -> bool:
    if shown is None or any(container.devices.get(ledger.resource) for container in shown.containers):
        return False  # it knew the resource, or has its records from before
    return bool(find_missing(pod, shown, ledger.of_this_kubelet))


def _found(answers: Mapping[PodUid, bool]) -> Mapping[PodUid, bool]:
    return {uid: lacks for uid, lacks in answers.items() if lacks}
