"""What would be evicted for gangs that have no place, as `accelet plan --preempt` tells it."""

from collections.abc import Iterable, Sequence

from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.preemption.search import Preemption, find_preemption
from accelet.scheduler.preemption.victims import Victim, may_preempt, pod_keys, victim_of
from accelet.scheduler.record import Record, placements_of
from accelet.scheduler.state import SchedulerState


def preempt_offline(state: SchedulerState, plans: Sequence[Plan]) -> dict[GangKey, Preemption]:
    """For each gang that must wait and may preempt, in order, whom that takes; without victims where nobody.

    What the plans place is there, and what one gang is given the next one does not get. `state` is not good
    for anything else afterwards.
    """
    for plan in plans:
        _assume(state, plan)
    found: dict[GangKey, Preemption] = {}
    for plan in plans:
        if plan.nodes is None and plan.is_settled and may_preempt(plan.gang, state.owners):
            found[plan.gang.key] = one = _find(state, plan)
            for key in pod_keys(one.victims):
                state.remove_pod(key, 0.0)
            if one.plan is not None:
                _assume(state, one.plan)
    return found


def _find(state: SchedulerState, plan: Plan) -> Preemption:
    cluster, victims = state.cluster, list(_victims(state))
    ending = [pod.key for pod in state.pods.values() if pod.deleted_s is not None and pod.node_name]
    supposed = cluster.suppose(cluster.snapshot(), [*pod_keys(victims), *ending])
    return find_preemption(plan.gang, victims, supposed, ending=ending)


def _victims(state: SchedulerState) -> Iterable[Victim]:
    for key in state.gang_keys():
        victim = victim_of(key, state.members(key), state.owners)
        if victim is not None and state.record_of(key) is None:
            yield victim


def _assume(state: SchedulerState, plan: Plan) -> None:
    if plan.nodes is None:
        return
    state.assume(Record(plan.gang.key, placements_of(plan), plan.distance or 0, plan.lower_bound))
