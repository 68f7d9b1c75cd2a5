"""Every field of a GPUTask that may be edited has an effect, and every other edit is refused."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.edits import set_deadline, why_outdated
from accelet.gputask.deciding.status import record_of
from accelet.gputask.deciding.view import CreateJob, DeleteTask, SetDeadline, SetReplicas, SetSuspended
from accelet.gputask.objects.jobs import JobRules, parse_job
from accelet.gputask.objects.manifests import deadline_patch, job_body
from accelet.kinds.gputask import GPU_TASK_DEFINITION, TaskMoves
from accelet.scheduler.moves.tasks import parse_terms
from tests.unit.gputask.edits import EDITS, fields_of, row_of
from tests.unit.gputask.world import TaskWorld, failure, make_task

DOCS = Path(__file__).parents[3] / "docs" / "gputask.md"
PREFIX = "a.b/gate-"


def test_every_field_has_one_row_in_the_table() -> None:
    fields = set(fields_of())

    assert {path for path in fields if row_of(path) is None} == set()
    assert set(EDITS) - {row_of(path) for path in fields} == set()


def test_the_documents_have_the_same_table() -> None:
    table = DOCS.read_text().partition("## Editing a task")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", table, re.MULTILINE)
    told = {
        path: follows
        for names, follows in rows
        for path in re.findall(r"`([A-Za-z.]+)`", names)
        if path in EDITS
    }
    assert told == EDITS


@pytest.mark.parametrize("path", [path for path, follows in EDITS.items() if follows == "refused"])
def test_an_edit_that_is_refused_has_a_rule_and_a_sentence(path: str) -> None:
    schema = GPU_TASK_DEFINITION.render()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rules = schema["properties"]["spec"]["x-kubernetes-validations"]
    own = [rule for rule in rules if f"oldSelf.{path})" in rule["rule"] and f"self.{path}" in rule["rule"]]

    assert [rule["message"] for rule in own] == [f"{path} cannot be changed: make another task"]


class Edited:
    """A running task of two ranks whose spec somebody changes."""

    def __init__(self, **spec: Any) -> None:
        self.world = TaskWorld(random.Random(1), make_task(spec={"replicas": 2, **spec}), faulty=0.0)
        self.turn(lambda: self.world.task.status.phase == "Running")

    def turn(self, until: Callable[[], bool], most: int = 300) -> None:
        world = self.world
        for _ in range(most):
            if until():
                return
            world.act(world.think())
            world.run_jobs()
            world.end_told(143)
            for pod in world.pods:
                if pod.phase == "Pending":
                    pod.phase = "Running"
            world.now_s += 1.0
        raise AssertionError(f"does not come to it: {world.task.status}")

    def edit(self, **changes: Any) -> None:
        task = self.world.task
        spec = msgspec.structs.replace(task.spec, **changes)
        self.world.task = replace(task, spec=spec, generation=task.generation + 1)
        self.world.version += 1

    def fail(self) -> None:
        pod = next(pod for pod in self.world.pods if pod.phase == "Running")
        pod.done = True
        self.world.end(pod, 1)


def test_retries_are_counted_by_the_number_at_the_next_end() -> None:
    edited = Edited(on_failure=failure(retries=0))
    edited.edit(on_failure=failure(retries=1))
    edited.fail()
    edited.turn(lambda: edited.world.task.status.attempt == 2)
    edited.turn(lambda: edited.world.task.status.phase == "Running")
    edited.edit(on_failure=failure(retries=0))
    edited.fail()
    edited.turn(lambda: edited.world.task.status.phase == "Failed")

    assert record_of(edited.world.task.status).reason == "RetriesUsed"


@pytest.mark.parametrize(
    ("before", "after", "code", "attempt"),
    [((), (42,), 42, 2), ((42,), (), 42, 1)],
    ids=["added", "removed"],
)
def test_a_job_is_judged_by_the_exit_codes_it_was_made_with(
    before: tuple[int, ...], after: tuple[int, ...], code: int, attempt: int
) -> None:
    """The API server refuses such an edit; one that was stored before it did changes nothing of a Job."""
    edited = Edited(on_failure=failure(retries=1, fatal_exit_codes=before))
    edited.edit(on_failure=failure(retries=1, fatal_exit_codes=after))
    pod = next(pod for pod in edited.world.pods if pod.phase == "Running")
    pod.done = True
    edited.world.end(pod, code)
    world = edited.world
    edited.turn(lambda: world.task.status.attempt == 2 or world.task.status.phase == "Failed")

    assert world.task.status.attempt == attempt
    assert record_of(world.task.status).reason == ("" if attempt == 2 else "FatalExit")


@pytest.mark.parametrize("codes", [(), (42,)])
def test_an_eviction_stays_a_disruption_whatever_was_edited(codes: tuple[int, ...]) -> None:
    other = (42,) if not codes else ()
    edited = Edited(on_failure=failure(fatal_exit_codes=codes))
    edited.edit(on_failure=failure(fatal_exit_codes=other))
    edited.world.pods[0].deleted = edited.world.pods[0].disrupted = True
    edited.turn(lambda: edited.world.task.status.attempt == 2)

    assert (edited.world.task.status.incidents, edited.world.task.status.disruptions) == (0, 1)


def test_ranks_that_were_told_how_many_they_are_begin_anew_with_the_new_number() -> None:
    edited = Edited(on_failure=failure(forgive_disruptions=False))
    edited.edit(replicas=4)
    edited.turn(lambda: edited.world.task.status.ready_replicas == 4)
    status = edited.world.task.status

    assert (status.attempt, status.incidents, status.disruptions, status.quick_ends) == (2, 0, 0, 0)
    assert status.last_end == (
        "its number of ranks was changed to 4; those of this attempt were told that they are 2"
    )
    assert {pod.rank for pod in edited.world.pods} == {0, 1, 2, 3}


@pytest.mark.parametrize("replicas", [2, 3, 6])
def test_an_elastic_task_goes_on_within_the_range_that_its_ranks_were_told(replicas: int) -> None:
    edited = Edited(replicas=4, min_replicas=2)
    edited.edit(replicas=replicas)
    edited.turn(lambda: edited.world.task.status.ready_replicas == replicas)

    assert edited.world.task.status.attempt == (2 if replicas > 4 else 1)


def test_ranks_that_were_told_nothing_are_scaled_in_place() -> None:
    view = Edited(rendezvous="None").world.view()
    spec = msgspec.structs.replace(view.task.spec, replicas=5)
    action = decide(replace(view, task=replace(view.task, spec=spec))).action

    assert action == SetReplicas(view.jobs[0], 5)


def test_a_job_of_a_former_version_is_scaled_in_place() -> None:
    view = Edited().world.view()
    spec = msgspec.structs.replace(view.task.spec, replicas=5)
    job = replace(view.jobs[0], world=None)
    action = decide(replace(view, task=replace(view.task, spec=spec), jobs=(job,))).action

    assert action == SetReplicas(job, 5)


def test_a_lone_rank_that_gets_peers_begins_anew_with_the_rules_of_several() -> None:
    edited = Edited(replicas=1, rendezvous="None")
    edited.edit(replicas=2)
    edited.turn(lambda: edited.world.task.status.ready_replicas == 2)
    job = next(job for job in edited.world.view().jobs if job.attempt == 2)

    assert job.rules.restart == "All"


@pytest.mark.parametrize("is_suspended", [True, False])
def test_suspend_is_followed_at_once(is_suspended: bool) -> None:
    edited = Edited()
    if not is_suspended:
        edited.edit(suspend=True)
        edited.turn(lambda: edited.world.task.status.phase == "Suspended" and not edited.world.pods)
    view = edited.world.view()
    spec = msgspec.structs.replace(view.task.spec, suspend=is_suspended)

    assert decide(replace(view, task=replace(view.task, spec=spec))).action == SetSuspended(
        view.jobs[0], is_suspended
    )


def test_a_time_to_live_counts_from_the_end_whenever_it_was_said() -> None:
    edited = Edited(replicas=1)
    (pod,) = edited.world.pods
    pod.done = True
    edited.world.end(pod, 0)
    edited.turn(lambda: edited.world.task.status.phase == "Completed")
    edited.world.now_s += 100.0
    view = edited.world.view()

    def after(ttl_seconds: int | None) -> Any:
        spec = msgspec.structs.replace(view.task.spec, ttl_seconds=ttl_seconds)
        return decide(replace(view, task=replace(view.task, spec=spec))).action

    assert after(None) is None
    assert after(1000) is None
    assert after(50) == DeleteTask()


@pytest.mark.parametrize("policy", ["Never", "Ask", "WhenItHelps"])
def test_the_scheduler_reads_the_terms_of_moves_each_time(policy: str) -> None:
    said = {"policy": policy, "saveSeconds": 7, "minRunSeconds": 8, "maxMoves": 9}
    raw = {"metadata": {"name": "t"}, "spec": {"move": said}}

    assert parse_terms(raw).moves == TaskMoves(
        policy=policy,  # type: ignore[arg-type]  # of the policies
        save_seconds=7,
        min_run_seconds=8,
        max_moves=9,
    )


# Deadlines.


def _with_deadline(before: int | None, after: int | None, *, ran_s: float = 0.0, **job: Any) -> Any:
    view = Edited(deadline_seconds=before).world.view()
    spec = msgspec.structs.replace(view.task.spec, deadline_seconds=after)
    started_s = view.jobs[0].started_s
    jobs = (replace(view.jobs[0], **job),)
    view = replace(view, task=replace(view.task, spec=spec), jobs=jobs, now_s=started_s + ran_s)
    return view, jobs[0]


@pytest.mark.parametrize("after", [9, 100_000])
def test_a_deadline_is_changed_by_as_much_as_the_tasks(after: int) -> None:
    view, job = _with_deadline(8, after)

    assert decide(view).action == SetDeadline(job, job.deadline_s + after - 8, after)


def test_a_deadline_that_passes_by_an_edit_ends_the_job_at_once() -> None:
    view, job = _with_deadline(1000, 8, ran_s=500.0)
    action = decide(view).action

    assert isinstance(action, SetDeadline)
    assert action.job == job
    assert action.deadline_s is not None
    assert 1 <= action.deadline_s <= 8


def test_a_deadline_that_is_added_counts_from_the_first_attempt() -> None:
    view, job = _with_deadline(None, 600, ran_s=500.0)
    action = decide(view).action

    assert isinstance(action, SetDeadline)
    assert action.deadline_s == int(view.record.started_s + 600 - job.started_s)


def test_a_deadline_that_is_added_while_the_job_is_suspended_counts_what_has_passed() -> None:
    view, job = _with_deadline(None, 600, ran_s=500.0, is_suspended=True)
    change = set_deadline(view, job)

    assert change is not None
    assert change.deadline_s == int(view.record.started_s + 600 - view.now_s)


def test_a_deadline_that_is_taken_away_is_gone() -> None:
    view, job = _with_deadline(8, None)

    assert decide(view).action == SetDeadline(job, None, None)


def test_a_job_of_a_former_version_is_given_the_deadline_of_its_task() -> None:
    view, job = _with_deadline(600, 600, is_deadline_noted=False, deadline_of=None)
    change = set_deadline(view, job)
    none, bare = _with_deadline(None, None, is_deadline_noted=False)

    assert change is not None
    assert change.deadline_of == 600
    assert set_deadline(none, bare) is None


_DEADLINES = st.none() | st.integers(1, 31_536_000)


@given(_DEADLINES, _DEADLINES, st.integers(0, 1_000_000), st.booleans())
def test_a_deadline_is_written_once_and_is_then_the_tasks(
    before: int | None, after: int | None, ran_s: int, suspended: bool
) -> None:
    task = make_task(spec={"deadline_seconds": before})
    job = replace(parse_job(job_body(task, 1, PREFIX, before)), uid="job", started_s=1000.0)
    spec = msgspec.structs.replace(task.spec, deadline_seconds=after)
    view = replace(_VIEW, task=replace(task, spec=spec), now_s=1000.0 + ran_s)
    view = replace(view, record=replace(view.record, started_s=1000.0))
    job = replace(job, is_suspended=suspended)
    change = set_deadline(view, job)

    assert (change is None) == (before == after)
    if change is not None:
        assert (change.deadline_s is None) == (after is None)
        assert change.deadline_s is None or 1 <= change.deadline_s <= (after or 0)
        patch = deadline_patch(job, change.deadline_s, change.deadline_of)
        raw = job_body(task, 1, PREFIX, before)
        raw["metadata"] |= {"annotations": raw["metadata"]["annotations"] | patch["metadata"]["annotations"]}  # type: ignore[index]
        raw["spec"] |= patch["spec"]
        written = replace(parse_job(raw), started_s=1000.0, is_suspended=suspended)
        assert set_deadline(view, written) is None


_VIEW = Edited().world.view()


def test_a_deadline_passed_between_the_attempts_may_be_put_off() -> None:
    edited = Edited(deadline_seconds=60, on_failure=failure(retries=3))
    edited.fail()
    edited.turn(lambda: edited.world.task.status.attempt == 2)
    edited.edit(deadline_seconds=100_000)
    edited.world.now_s += 100.0
    edited.turn(lambda: isinstance(edited.world.think().step.action, CreateJob))
    action = edited.world.think().step.action

    assert isinstance(action, CreateJob)
    assert action.deadline_s is not None
    assert action.deadline_s > 99_000


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 6) | st.none(),
    st.sampled_from([None, "None", "Env"]),
    st.sampled_from([None, "All", "Rank"]),
)
def test_a_job_goes_on_only_if_its_ranks_were_told_what_holds_now(
    before: int, after: int, least: int | None, rendezvous: Any, restart: Any
) -> None:
    least = None if least is None else min(least, before, after)
    spec = {
        "replicas": before,
        "min_replicas": least,
        "rendezvous": rendezvous,
        "on_failure": failure(restart=restart),
    }
    task = make_task(spec=spec)
    job = parse_job(job_body(task, 1, PREFIX, None))
    now = replace(task, spec=msgspec.structs.replace(task.spec, replicas=after))
    outdated = why_outdated(now, job)

    assert not why_outdated(task, job)
    if not outdated:
        assert job.rules == replace(JobRules(), restart=now.restart, disruption=0)
        fresh = parse_job(job_body(now, 1, PREFIX, None))
        told = (job.world or "").split(":")
        assert job.world == fresh.world or int(told[0]) <= after <= int(told[-1])
