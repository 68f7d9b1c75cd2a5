"""The slices of a booking: those of its JobSet or Job, with what the queue has added to the pods."""

from collections.abc import Sequence
from dataclasses import replace

from accelet.kube.pods import Pod
from accelet.kube.requests import pod_requests
from accelet.provisioner.demand.capacity import read_tier
from accelet.provisioner.demand.owners import JobOwner, JobTemplate
from accelet.provisioner.demand.selectors import node_selector
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.tiers import FLEX_START


def with_booked_pods(owner: JobOwner, booked: Sequence[tuple[int, Pod]]) -> JobOwner | Refusal:
    """The owner as the queue would let it run: its TPU pods as booked, each with how many there are.

    A queue that knows flavors of nodes adds their labels to the pods when it lets them run, and to the
    PodTemplates it books with before. These come in the order of the owner's own templates.
    """
    wanting = [(count, pod) for count, pod in booked if _wants_chips(pod)]
    mine = [_pods(template) for template in owner.templates if _is_booked(template)]
    if [count for count, _ in wanting] != mine:
        return Refusal(
            f"it books {_list([count for count, _ in wanting])} pods with TPUs, and {owner.kind} "
            f"{owner.name[:63]} has {_list(mine)}: leave podSetMergePolicy unset"
        )
    if any(read_tier(node_selector(pod)) == FLEX_START for _, pod in wanting):
        return Refusal(
            "GKE makes flex-start machines only for pods that kube-scheduler could not place, and a queue "
            "lets pods come once the machines are booked: leave the admission check out for flex-start, or "
            "use GKE's own class, queued-provisioning.gke.io"
        )
    pods = iter(wanting)
    templates = [replace(one, pod=next(pods)[1]) if _is_booked(one) else one for one in owner.templates]
    return replace(owner, templates=tuple(templates))


def _is_booked(template: JobTemplate) -> bool:
    return _pods(template) > 0 and _wants_chips(template.pod)


def _wants_chips(pod: Pod) -> bool:
    return bool(pod_requests(pod).get(TPU, 0))


def _pods(template: JobTemplate) -> int:
    return max(template.replicas, 0) * max(template.parallelism, 0)


def _list(counts: Sequence[int]) -> str:
    shown = ", ".join(map(str, counts[:8]))
    return f"{shown or 'no'}{' and more' if len(counts) > 8 else ''}"
