"""Tasks as people look at them, with their Moves."""

from dataclasses import replace
from datetime import UTC, datetime

from accelet.kinds.move import Move, MoveGain, MovePhase, MovePlace, MoveSpec, MoveStatus, MoveTask
from accelet.overview.bounds import MOST_SENTENCE
from accelet.overview.wishes import box_tasks
from tests.unit.gputask.world import make_task


def _move(name: str, phase: MovePhase, created_s: float, *, ranks: int = 1, uid: str = "task-uid") -> Move:
    spec = MoveSpec(
        task=MoveTask(name="train", uid=uid, attempt=1),
        takes={},
        places=tuple(
            MovePlace(rank=rank, pod_uid=f"uid-{rank}", from_node="n0", to_node="n1") for rank in range(ranks)
        ),
        gain=MoveGain(kind="LetsIn", text="would let in a gang"),
        valid_until=datetime(2100, 1, 1, tzinfo=UTC),
    )
    status = MoveStatus(phase=phase, reason="Said", why="so it is")
    return Move("ml", name, f"uid-{name}", "1", created_s, spec, status)


def test_a_task_is_shown_with_the_move_that_goes_on_or_else_the_last() -> None:
    task = make_task()
    ended, newer = _move("first", "Done", 1.0), _move("third", "Withdrawn", 3.0)
    live, foreign = _move("second", "Saving", 2.0), _move("other", "Saving", 4.0, uid="forerunner")

    def shown(*moves: Move) -> str:
        return box_tasks([task], moves)["ml/train"].move

    assert not shown() + shown(foreign)
    text = "second: Saving (Said: so it is); rank 0 from n0 to n1; would let in a gang"
    assert shown(newer, live, ended, foreign) == text
    assert shown(newer, ended).startswith("third: Withdrawn")


def test_the_text_of_a_move_is_bounded() -> None:
    many = _move("many", "Leaving", 1.0, ranks=256)
    long = replace(many, status=MoveStatus(phase="Leaving", why="y" * 1024))
    for move in (many, long):
        text = box_tasks([make_task()], [move])["ml/train"].move
        assert len(text) <= MOST_SENTENCE + 1  # the mark that it was cut
    assert "and 248 more" in box_tasks([make_task()], [many])["ml/train"].move
