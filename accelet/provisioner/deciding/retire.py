"""How a pool is deleted: its nodes closed, looked at again, and only then."""

from dataclasses import replace

from accelet.control.walltime import left_s
from accelet.provisioner.deciding.view import Close, Delete, Evict, SliceRecord, SlicesView, Step
from accelet.provisioner.pools.pool import Failure, NodePool, Trouble

_PODS_AGAIN_S = 30.0
_DELETE_AGAIN_S = 10.0
_REFUSED_AGAIN_S = 60.0
_MOST_WHY = 1000


def retire(view: SlicesView, pool: NodePool, record: SliceRecord) -> Step:
    """The next step towards deleting `pool`, which is not being deleted yet.

    A pool is never deleted while a pod runs there that is no DaemonSet's, unless a person insists.
    """
    nodes = view.nodes_of(pool.name)
    opened = tuple(node.name for node in nodes if node.closed_s is None or node.is_open)
    if opened:
        return Step(record, Close(opened))
    busy = tuple(node.name for node in nodes if node.has_pods)
    if busy and not view.is_forced:
        pods = f"pods still run on {len(busy)} of its {len(nodes)} nodes"
        if pods not in record.why:
            record = record.say(f"{record.why[:900].partition('; pods still run')[0]}; {pods}")
        return Step(record, _evict(view, record, busy), _PODS_AGAIN_S)
    closed_s = max((node.closed_s or 0.0 for node in nodes), default=0.0)
    wait_s = left(view, closed_s, view.times.settle_s)
    if wait_s > 0 and nodes:
        return Step(record, None, wait_s)
    if pool.name == record.pool and not 0.0 <= view.now_s - record.asked_end_s < view.times.lag_s / 2:
        record = replace(record, asked_end_s=view.now_s)
    again_s = _REFUSED_AGAIN_S if record.undeletable else _DELETE_AGAIN_S
    return Step(record, Delete(pool.name, tuple(node.name for node in nodes)), again_s)


def after_delete(view: SlicesView, record: SliceRecord, failure: Failure | None) -> SliceRecord:
    """The record after the provider was asked to delete the pool; None for accepted, or not asked at all.

    A provider that is busy, or does not answer, is reported once that lasts for `slow_s`. The first sentence
    is kept: the next one may differ in nothing but a number.
    """
    if failure is None or failure.trouble is Trouble.GONE:
        return replace(record, undeletable="")
    is_soon_over = failure.trouble.passes or failure.trouble is Trouble.UNKNOWN
    if is_soon_over and not record.undeletable and left(view, record.since_s, view.times.slow_s) > 0:
        return record
    return replace(record, undeletable=record.undeletable or failure.sentence[:_MOST_WHY])


def _evict(view: SlicesView, record: SliceRecord, nodes: tuple[str, ...]) -> Evict | None:
    """Has the pods on these nodes evicted where the slice is lost and the settings say so."""
    evict_s = view.times.evict_s
    if evict_s is None or record.phase != "Failing" or left(view, record.since_s, evict_s) > 0:
        return None
    return Evict(nodes)


def asks_for_end(before: SliceRecord, after: SliceRecord) -> bool:
    """Whether `after` says that the provider is asked to delete the pool, which comes next."""
    return after.asked_end_s not in (0.0, before.asked_end_s)


def is_ending(view: SlicesView) -> bool:
    """Whether the provider may be about to delete the pool although the list does not say so yet."""
    return ending_left_s(view) > 0.0


def ending_left_s(view: SlicesView) -> float:
    """For how long a list may still lack that the pool is being deleted; 0 once it would say so."""
    asked_s, limit_s = view.record.asked_end_s, 1.5 * view.times.lag_s
    return max(0.0, asked_s + limit_s - view.listed.asked_s) if asked_s > 0.0 else 0.0


def left(view: SlicesView, since_s: float, limit_s: float) -> float:
    """What is left of a wait of `limit_s` from `since_s` on, however clocks jump."""
    return left_s(since_s + limit_s, view.now_s, limit_s)
