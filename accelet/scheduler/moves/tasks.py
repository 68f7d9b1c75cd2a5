"""What the scheduler reads of GPUTasks: whether, how often and where to they may be moved."""

from dataclasses import dataclass, field

from accelet.kinds.gputask import TaskMoves
from accelet.kinds.wish import MOVE_TO, MoveWish, parse_wish
from accelet.kube.objects import ObjectKey, RawObject, Wire, WireObject, read_object


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """One GPUTask. `is_held_up`: it is being deleted, is suspended, or in a queue, and is not moved then."""

    namespace: str
    name: str
    uid: str
    attempt: int
    moves: TaskMoves = field(default_factory=TaskMoves)
    is_held_up: bool = False
    wish: MoveWish | None = None

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


class _WireSpec(Wire, frozen=True):
    move: TaskMoves | None = None
    suspend: bool | None = None
    queue: str | None = None


class _WireStatus(Wire, frozen=True):
    attempt: int | None = None


class _WireTask(WireObject, frozen=True):
    spec: _WireSpec | None = None
    status: _WireStatus | None = None


def parse_terms(raw: RawObject) -> TaskTerms:
    """The terms of the GPUTask that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the kind promises.
    """
    wire = read_object(raw, "GPUTask", _WireTask)
    metadata, spec, status = wire.metadata, wire.spec or _WireSpec(), wire.status or _WireStatus()
    return TaskTerms(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        attempt=status.attempt or 0,
        moves=spec.move or TaskMoves(),
        is_held_up=metadata.deletion_timestamp is not None or bool(spec.suspend) or spec.queue is not None,
        wish=parse_wish((metadata.annotations or {}).get(MOVE_TO, "")),
    )
