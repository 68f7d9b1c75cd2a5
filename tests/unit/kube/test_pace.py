import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
    ServerError,
    TooManyError,
    UnauthorizedError,
    UnavailableError,
)
from accelet.kube.watching.pace import (
    List,
    ListDone,
    ListFailed,
    Pace,
    StepOutcome,
    Watch,
    Watched,
    WatchProgress,
    begin,
    proceed,
)

PACE = Pace()
GONE = GoneError("watch", 410, "Expired", "")
ERRORS: list[KubeError] = [
    GONE,
    ForbiddenError("list", 403, "Forbidden", ""),
    UnauthorizedError("list", 401, "Unauthorized", ""),
    NotFoundError("list", 404, "NotFound", ""),
    ServerError("list", 500, "InternalError", ""),
    ConflictError("list", 409, "Conflict", ""),
    TooManyError("list", 429, "TooManyRequests", "", retry_after_s=5.0),
    TooManyError("list", 429, "TooManyRequests", "", retry_after_s=1e9),
    UnavailableError("list: no answer"),
    MalformedObjectError("watch event of Pod", "", "", "", "no JSON"),
]


def simulate(outcome: StepOutcome, seconds: float, seed: int = 0) -> list[float]:
    """The times of the requests of a reflector to which always the same happens at once."""
    uniform, now_s, at = random.Random(seed).uniform, 0.0, []
    progress = begin(from_cache=False)
    while now_s <= seconds:
        at.append(now_s)
        progress = proceed(progress, outcome, PACE, uniform)
        now_s += progress.step.wait_s
    return at


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("error", ERRORS[1:4])
def test_refusal_gets_two_requests_in_the_first_ten_seconds(error: KubeError, seed: int) -> None:
    for outcome in (ListFailed(error), Watched("1", 0.0, error)):
        assert len(simulate(outcome, 10.0, seed)) == 2
        assert len(simulate(outcome, 600.0, seed)) < 60


@pytest.mark.parametrize("error", ERRORS)
def test_lasting_fault_is_asked_about_seldom_and_never_given_up(error: KubeError) -> None:
    at = simulate(ListFailed(error), 3600.0)
    assert 30 <= len(at) < 360
    assert all(0.8 <= later - earlier <= 121 for earlier, later in itertools.pairwise(at))


def test_watch_that_ends_at_once_is_not_repeated_at_once() -> None:
    assert len(simulate(Watched("1", 0.0), 10.0)) <= 6


def test_first_list_may_come_from_the_cache_and_later_ones_are_up_to_date() -> None:
    progress = begin(from_cache=True)
    assert progress.step == List(0.0, from_cache=True)
    failed = proceed(progress, ListFailed(ERRORS[4]), PACE, random.Random(0).uniform)
    assert isinstance(failed.step, List)
    assert failed.step.from_cache
    listed = proceed(failed, ListDone("7"), PACE, random.Random(0).uniform)
    gone = proceed(listed, Watched("7", 60.0, GONE), PACE, random.Random(0).uniform)
    assert isinstance(gone.step, List)
    assert not gone.step.from_cache


def test_expired_pages_are_followed_by_one_list_in_one_piece() -> None:
    uniform = random.Random(0).uniform
    progress = proceed(begin(from_cache=False), ListFailed(GONE), PACE, uniform)
    assert isinstance(progress.step, List)
    assert not progress.step.is_paged
    progress = proceed(progress, ListFailed(ERRORS[4]), PACE, uniform)
    assert isinstance(progress.step, List)
    assert not progress.step.is_paged
    progress = proceed(
        proceed(progress, ListDone("1"), PACE, uniform), Watched("1", 60.0, GONE), PACE, uniform
    )
    assert isinstance(progress.step, List)
    assert progress.step.is_paged


def test_watch_that_the_server_ends_in_its_time_goes_on_at_once() -> None:
    progress = proceed(begin(from_cache=False), Watched("9", 300.0), PACE, random.Random(0).uniform)
    assert isinstance(progress.step, Watch)
    assert (progress.step.wait_s, progress.step.resource_version) == (0.0, "9")


def test_retry_after_is_respected_up_to_two_minutes() -> None:
    uniform = random.Random(0).uniform
    soon = proceed(begin(from_cache=False), ListFailed(ERRORS[6]), PACE, uniform)
    assert 5.0 <= soon.step.wait_s <= 5.8
    never = proceed(begin(from_cache=False), ListFailed(ERRORS[7]), PACE, uniform)
    assert 120.0 <= never.step.wait_s <= 120.8


def test_healthy_watch_forgets_the_faults_before_it() -> None:
    uniform = random.Random(0).uniform
    progress = WatchProgress(Watch(0.0, "1", 300), backoff_s=30.0, refusals=5)
    progress = proceed(progress, Watched("2", 60.0, UnavailableError("broke")), PACE, uniform)
    assert progress.step.wait_s <= 2.4


@given(st.lists(st.integers(1, 20).map(str), max_size=8), st.integers(1, 20), st.integers(0, 9))
def test_watch_begins_at_the_first_earlier_version_that_the_server_has(
    earlier: list[str], listed: int, too_old: int
) -> None:
    uniform, tried = random.Random(0).uniform, []
    progress = proceed(begin(from_cache=False, earlier=earlier), ListDone(str(listed)), PACE, uniform)
    for _ in range(too_old):
        if not isinstance(progress.step, Watch):
            break
        assert progress.step.wait_s == 0.0
        tried.append(progress.step.resource_version)
        progress = proceed(progress, Watched(tried[-1], 0.01, GONE), PACE, uniform)
    wanted = [*(one for one in earlier if int(one) < listed), str(listed)]
    assert tried == wanted[:too_old]
    if too_old >= len(wanted):  # that of the list is too old as well
        assert isinstance(progress.step, List)
        assert progress.step.wait_s > 0.0
        again = proceed(progress, ListDone("30"), PACE, uniform).step
        assert isinstance(again, Watch)
        assert again.resource_version == "30"


def test_watch_that_has_shown_something_is_not_followed_by_one_from_an_earlier_version() -> None:
    uniform = random.Random(0).uniform
    progress = proceed(begin(from_cache=False, earlier=["3", "5"]), ListDone("9"), PACE, uniform)
    progress = proceed(progress, Watched("12", 60.0, GONE), PACE, uniform)
    assert isinstance(progress.step, List)
    assert progress.earlier == ()


def test_earlier_versions_are_forgotten_once_a_watch_was_accepted() -> None:
    uniform = random.Random(0).uniform
    progress = proceed(begin(from_cache=False, earlier=["3", "5"]), ListDone("9"), PACE, uniform)
    progress = proceed(progress, Watched("12", 60.0), PACE, uniform)
    assert isinstance(progress.step, Watch)
    assert progress.step.resource_version == "12"
    assert isinstance(proceed(progress, Watched("12", 60.0, GONE), PACE, uniform).step, List)


OUTCOMES = st.one_of(
    st.builds(ListDone, st.just("5")),
    st.builds(ListFailed, st.sampled_from(ERRORS)),
    st.builds(Watched, st.just("6"), st.floats(0, 500), st.none() | st.sampled_from(ERRORS)),
)


@given(st.lists(OUTCOMES, max_size=20), st.randoms(use_true_random=False))
def test_every_fault_is_followed_by_a_wait_and_gone_by_a_list(
    outcomes: list[StepOutcome], chance: random.Random
) -> None:
    progress = begin(from_cache=False)
    for outcome in outcomes:
        progress = proceed(progress, outcome, PACE, chance.uniform)
        error = None if isinstance(outcome, ListDone) else outcome.error
        if error is not None or (isinstance(outcome, Watched) and outcome.lasted_s < PACE.healthy_s):
            assert progress.step.wait_s >= PACE.first_s
        assert progress.step.wait_s <= PACE.longest_s + PACE.first_s
        if isinstance(outcome, ListFailed) or isinstance(error, GoneError | MalformedObjectError):
            assert isinstance(progress.step, List)
        else:
            assert isinstance(progress.step, Watch)
            assert 240 <= progress.step.timeout_s <= 480
