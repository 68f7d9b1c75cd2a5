"""Who has no place yet, and why; and the plans that are being carried out."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.overview.bounds import MOST_HOLDERS, MOST_SENTENCE, cut, first
from accelet.overview.nodes import Extended, box_amounts, queue_of
from accelet.overview.picture import PlanBox, SeatBox, WaitingBox
from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.gangs.grouping import Gang, is_gated, is_ours
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.plan import Plan, describe_plan
from accelet.scheduler.placement.reservation import Patience
from accelet.scheduler.placement.unlike import QUICK_EFFORT
from accelet.scheduler.record import Record

MOST_PLANNED = 200
"""So many gangs are planned for their sentence; those behind them in order wait without one."""

MOST_NAMED = 16
"""So many pods of a gang that waits are named."""

_BEHIND = f"waits behind more than {MOST_PLANNED} others; `accelet plan` says what each waits for"


def plan_waiting(gangs: Sequence[Gang], snapshot: Snapshot) -> Sequence[Plan]:
    """The planner's word on the first gangs, one after the other, with little effort for each.

    Nothing is kept free for anybody: what the scheduler remembers of starved gangs, it alone knows.
    """
    return plan_backlog(
        gangs[:MOST_PLANNED], snapshot, Patience(0.0, float("inf")), effort=QUICK_EFFORT
    ).plans


def box_gangs(
    gangs: Iterable[Gang], plans: Iterable[Plan], asks_of: Callable[[Pod], Extended]
) -> dict[str, WaitingBox]:
    """Gangs that wait for accelet's scheduler, each with what the planner says of it."""
    said = {plan.gang.key: plan for plan in plans}
    boxes: dict[str, WaitingBox] = {}
    for gang in gangs:
        plan = said.get(gang.key)
        fits = plan is not None and plan.nodes is not None
        asks: Counter[str] = Counter()
        for pod in gang.pods:
            asks.update(asks_of(pod))
        boxes[f"{gang.key.kind}/{gang.key}"] = WaitingBox(
            name=cut(str(gang.key)),
            kind=cut(gang.key.kind),
            pods=len(gang.pods),
            size=gang.size,
            priority=gang.priority,
            since_s=gang.created_s,
            reason=cut(_reason(plan), MOST_SENTENCE),
            fits=fits,
            asks=box_amounts(asks),
            names=first((cut(f"{pod.namespace}/{pod.name}") for pod in gang.pods), MOST_NAMED)[0],
            queue=queue_of(gang.pods[0]) if gang.pods else "",
        )
    return boxes


def _reason(plan: Plan | None) -> str:
    if plan is None:
        return _BEHIND
    return plan.reason or "" if plan.nodes is None else describe_plan(plan)


def box_pods(pods: Iterable[tuple[Pod, Extended]], prefix: str) -> dict[str, WaitingBox]:
    """Pods that ask for extended resources and wait for somebody else than accelet's scheduler."""
    return {
        f"pod/{pod.namespace}/{pod.name}": WaitingBox(
            name=cut(f"{pod.namespace}/{pod.name}"),
            kind="Pod",
            pods=1,
            priority=pod.priority,
            since_s=pod.created_s,
            reason=cut(_who_is_waited_for(pod, prefix), MOST_SENTENCE),
            is_ours=False,
            asks=box_amounts(asks),
            names=(cut(f"{pod.namespace}/{pod.name}"),),
            queue=queue_of(pod),
        )
        for pod, asks in pods
        if asks and pod.node_name is None and pod.deleted_s is None and not pod.is_terminal
        if not is_gated(pod, prefix)
    }


def _who_is_waited_for(pod: Pod, prefix: str) -> str:
    foreign = [gate for gate in pod.gates if not is_ours(gate, prefix)]
    if foreign:
        return f"held by the gate {foreign[0]}, which is not accelet's to lift"
    if any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in pod.conditions):
        return f"{pod.scheduler_name} finds no node for it; kubectl describe pod says why"
    return f"{pod.scheduler_name} has not placed it yet"


def box_plans(records: Iterable[Record], pods: Mapping[ObjectKey, Pod]) -> dict[str, PlanBox]:
    """Plans that are written down, and how many of their pods are on their nodes."""
    return {f"{one.gang.kind}/{one.gang}": _box_plan(one, pods) for one in records}


def _box_plan(record: Record, pods: Mapping[ObjectKey, Pod]) -> PlanBox:
    there = (pods.get((record.gang.namespace, one.pod)) for one in record.placements)
    shown, more = first(record.placements, MOST_HOLDERS)
    return PlanBox(
        name=cut(str(record.gang)),
        kind=cut(record.gang.kind),
        pods=len(record.placements),
        bound=sum(pod is not None and pod.node_name is not None for pod in there),
        distance=record.distance,
        lower_bound=record.lower_bound,
        seats=tuple(SeatBox(pod=cut(one.pod), node=cut(one.node)) for one in shown),
        more_seats=more,
    )
