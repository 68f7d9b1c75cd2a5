"""How often the API server is asked again for what it has refused."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.refusals import FIRST_S, LONGEST_S, obstacle_after
from accelet.gputask.deciding.view import MOST_PATIENCE_S, Obstacle
from accelet.kube.errors import (
    ApiError,
    EndingError,
    ForbiddenError,
    InvalidError,
    ServerError,
    TooManyError,
)
from tests.unit.gputask.world import make_task

_KINDS = st.sampled_from([EndingError, ForbiddenError, InvalidError, ServerError, TooManyError])


def _error(kind: type[ApiError], message: str = "no", asked_s: float | None = None) -> ApiError:
    is_busy = kind in (ServerError, TooManyError)
    return kind("POST it", 403, "Reason", message, retry_after_s=(asked_s or 1.0) if is_busy else None)


@given(st.lists(st.tuples(_KINDS, st.floats(0.1, 1e6), st.booleans()), max_size=30), st.text(max_size=3000))
def test_nothing_is_asked_for_sooner_than_was_said_and_all_of_it_again_within_an_hour(
    answers: list[tuple[type[ApiError], float, bool]], message: str
) -> None:
    task, before, now_s = make_task(), None, 1_000_000.0
    for kind, asked_s, is_changed in answers:
        if is_changed:
            task = replace(task, generation=task.generation + 1)
        obstacle: Obstacle = obstacle_after(_error(kind, message, asked_s), task, before, now_s)
        assert now_s < obstacle.retry_s <= now_s + MOST_PATIENCE_S
        if kind in (ServerError, TooManyError):
            assert obstacle.retry_s >= now_s + min(asked_s, MOST_PATIENCE_S)
        assert obstacle.message == " ".join(obstacle.message.split())
        assert obstacle.message
        before, now_s = obstacle, obstacle.retry_s


def test_what_a_quota_forbids_is_tried_again_after_10_s_doubled_up_to_5_min_and_afresh_when_it_changes() -> (
    None
):
    task, waits, obstacle = make_task(), list[float](), None
    for _ in range(8):
        obstacle = obstacle_after(_error(ForbiddenError), task, obstacle, 0.0)
        waits.append(obstacle.retry_s)
    assert waits == [FIRST_S, 20.0, 40.0, 80.0, 160.0, LONGEST_S, LONGEST_S, LONGEST_S]
    changed = replace(task, generation=task.generation + 1)
    assert obstacle is not None
    assert not obstacle.concerns(changed)
    assert obstacle_after(_error(ForbiddenError), changed, obstacle, 0.0).retry_s == FIRST_S


def test_what_the_api_server_says_of_itself_holds_however_the_task_is_changed() -> None:
    task = make_task()
    changed = replace(task, generation=task.generation + 1)
    for kind, holds in ((EndingError, True), (TooManyError, True), (InvalidError, False)):
        assert obstacle_after(_error(kind), task, None, 0.0).concerns(changed) == holds


def test_refusals_of_another_kind_are_counted_afresh() -> None:
    task, obstacle = make_task(), None
    for _ in range(6):
        obstacle = obstacle_after(_error(TooManyError), task, obstacle, 0.0)
    obstacle = obstacle_after(_error(ForbiddenError), task, obstacle, 0.0)
    assert (obstacle.retry_s, obstacle.tries) == (FIRST_S, 1)
