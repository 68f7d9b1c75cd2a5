"""Slices of TPUs and GPU tasks, as their commands show them."""

from collections.abc import Iterable

from accelet.gputask.objects.task import GpuTask
from accelet.overview.bounds import MOST_HOLDERS, MOST_SENTENCE, cut, first
from accelet.overview.picture import SliceBox, TaskBox
from accelet.provisioner.record import SliceRequest


def box_slices(requests: Iterable[SliceRequest]) -> dict[str, SliceBox]:
    return {f"{one.namespace}/{one.name}": _box_slice(one) for one in requests}


def _box_slice(one: SliceRequest) -> SliceBox:
    spec, status = one.spec, one.status
    return SliceBox(
        name=cut(f"{one.namespace}/{one.name}"),
        phase=status.phase,
        set=cut(spec.slice_set.name),
        owner=cut(spec.owner.job) if spec.owner else "",
        accelerator=cut(spec.accelerator),
        topology=cut(spec.topology),
        hosts=cut(status.hosts),
        tier=cut(status.tier),
        zone=cut(status.zone),
        pool=cut(status.pool),
        why=cut(status.why, MOST_SENTENCE),
        is_deleted=one.is_deleted,
    )


def box_tasks(tasks: Iterable[GpuTask]) -> dict[str, TaskBox]:
    return {f"{one.namespace}/{one.name}": _box_task(one) for one in tasks}


def _box_task(task: GpuTask) -> TaskBox:
    spec, status = task.spec, task.status
    nodes, _ = first(status.nodes, MOST_HOLDERS)
    return TaskBox(
        name=cut(f"{task.namespace}/{task.name}"),
        phase=status.phase,
        ready=status.ready_replicas,
        replicas=spec.replicas,
        attempt=status.attempt,
        retries_left=status.retries_left,
        cards=_cards(task),
        where=cut(status.where),
        why=cut(status.why, MOST_SENTENCE),
        last_end=cut(status.last_end, MOST_SENTENCE),
        nodes=tuple(cut(f"{one.node}: rank {one.ranks}", MOST_SENTENCE) for one in nodes),
        is_deleted=task.is_deleted,
    )


def _cards(task: GpuTask) -> str:
    """What each rank gets: `2 cards, 4 tiles of gpu.intel.com/i915`."""
    cards = task.spec.cards
    if cards is None:
        return ""
    plural = "s" * (cards.cards > 1)
    tiles = f", {cards.tiles} tile{'s' * (cards.tiles > 1)}" if cards.tiles is not None else ""
    return cut(f"{cards.cards} card{plural}{tiles} of {cards.resource}")
