"""Writes Moves: proposals, and the scheduler's part of their status."""

import hashlib
from datetime import UTC, datetime

import msgspec

from accelet.control.writer import FencedWriter
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, Move, MoveSpec, parse_move
from accelet.kube.errors import ConflictError, ExistsError, NotFoundError
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.holding import MoveVerdict

_LONGEST_TASK = 200


class MoveWriter:
    """Acts on the API server, and tells the book at once what came of it.

    Every method raises KubeError, and NotLeadingError once the `writer` may not write any more.
    """

    def __init__(self, writer: FencedWriter, book: MoveBook) -> None:
        self._writer, self._book = writer, book

    async def propose(self, namespace: str, name: str, spec: MoveSpec) -> Move:
        """Makes a Move, which goes with its task; the one of this name if it is there already."""
        owner = {
            "apiVersion": GPU_TASKS.api_version,
            "kind": GPU_TASKS.kind,
            "name": spec.task.name,
            "uid": spec.task.uid,
        }
        body = {
            "apiVersion": MOVES.api_version,
            "kind": MOVES.kind,
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
            "spec": msgspec.to_builtins(spec),
        }
        try:
            raw = await self._writer.create(MOVES, namespace, body)
        except ExistsError:
            raw = await self._writer.get(MOVES, namespace, name)
        move = parse_move(raw)
        self._book.set_move(move)
        return move

    async def write(self, move: Move, verdict: MoveVerdict, now_s: float) -> Move | None:
        """Writes a status at the version of the Move that was seen; None where it has changed meanwhile."""
        now = datetime.fromtimestamp(now_s, UTC)
        status = move.status.advance(verdict.phase, verdict.reason, verdict.why, now)
        body = {
            "metadata": {"uid": move.uid, "resourceVersion": move.resource_version},
            "status": msgspec.to_builtins(status),
        }
        try:
            raw = await self._writer.patch(MOVES, *move.key, body, "merge", subresource="status")
        except NotFoundError:
            self._book.remove_move(move.key)
            return None
        except ConflictError:
            self._book.renew_move(parse_move(await self._writer.get(MOVES, *move.key)))
            return None
        written = parse_move(raw)
        self._book.renew_move(written)
        return written


def move_name(spec: MoveSpec, of: str) -> str:
    """A name that stands for this task, and for what it is moved `of`; the same for the same."""
    digest = hashlib.sha256(f"{spec.task.uid}/{spec.task.attempt}/{of}".encode()).hexdigest()
    return f"{spec.task.name[:_LONGEST_TASK]}-{digest[:8]}"
