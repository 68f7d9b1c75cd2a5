"""Slices of TPUs and GPU tasks, as their commands show them."""

from collections.abc import Iterable

from accelet.gputask.objects.task import GpuTask
from accelet.kinds.move import Move
from accelet.overview.bounds import MOST_HOLDERS, MOST_SENTENCE, cut, first
from accelet.overview.picture import SliceBox, TaskBox
from accelet.provisioner.record import SliceRequest

_MOST_PLACES = 8


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


def box_tasks(tasks: Iterable[GpuTask], moves: Iterable[Move] = ()) -> dict[str, TaskBox]:
    """Each with its Move that has not ended, or the last that has."""
    last: dict[str, Move] = {}
    for move in sorted(moves, key=lambda one: (not one.has_ended, one.created_s, one.name)):
        last[move.spec.task.uid] = move
    return {f"{one.namespace}/{one.name}": _box_task(one, last.get(one.uid)) for one in tasks}


def say_move(move: Move) -> str:
    """One Move in a line: how far it is, which ranks go where, what for and why so."""
    gone = [place for place in move.spec.places if place.from_node != place.to_node]
    named = [f"rank {place.rank} from {place.from_node} to {place.to_node}" for place in gone[:_MOST_PLACES]]
    named += [f"and {len(gone) - _MOST_PLACES} more"] if len(gone) > _MOST_PLACES else []
    where = ", ".join(named) or "other cards of the same nodes"
    said = ": ".join(part for part in (move.status.reason, move.status.why) if part)
    text = f"{move.name}: {move.phase}{f' ({said})' if said else ''}; {where}"
    return f"{text}; {move.spec.gain.text or move.spec.gain.kind}"


def _box_task(task: GpuTask, move: Move | None) -> TaskBox:
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
        move=cut(say_move(move), MOST_SENTENCE) if move is not None else "",
        last_end=cut(status.last_end, MOST_SENTENCE),
        queue=cut(spec.queue or ""),
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
