"""What happened to tasks, judged by what programs and API server wrote down, without anything of accelet."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.tasks.programs import Sort, sort_of

TASK = "accelet.dev/task"
_RANK = "batch.kubernetes.io/job-completion-index"


@dataclass
class Run:
    """One run of a rank's program. Times are the node's uptime; without `code`, `ended_s` it was killed."""

    task: str
    attempt: int
    rank: int
    began_s: float
    is_told: bool = False
    code: int | None = None
    ended_s: float | None = None


@dataclass
class Attempt:
    """What was seen of one Job: its UIDs, which ranks their kubelet refused, whether one was evicted."""

    jobs: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    is_disrupted: bool = False


@dataclass
class Seen:
    """What was seen of all tasks, by name and attempt; `beside` has a sentence for each overlap."""

    attempts: defaultdict[str, defaultdict[int, Attempt]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Attempt))
    )
    beside: list[str] = field(default_factory=list)


def read_runs(text: str) -> list[Run]:
    """The runs of `HOST ID EVENT UPTIME` lines. One that is told to end first says no start."""
    runs: dict[str, Run] = {}
    for host, uuid, event, uptime in (line.split() for line in text.splitlines()):
        task, attempt, rank = host.rsplit("-", 2)
        if event == "start" or (event == "told" and uuid not in runs):
            assert uuid not in runs
            runs[uuid] = Run(task, int(attempt), int(rank), float(uptime))
        if event == "told":
            runs[uuid].is_told = True
        elif event != "start":
            runs[uuid].code, runs[uuid].ended_s = int(event.partition(":")[2]), float(uptime)
    return list(runs.values())


def read_watch(jobs: str, pods: str) -> Seen:
    """What two watches saw, one event a line, in the order in which it happened."""
    seen = Seen()
    for job in _objects(jobs):
        if owner := _controller(job):
            task, _, attempt = job["metadata"]["name"].rpartition("-")
            one = seen.attempts[task][int(attempt)]
            one.jobs.add(job["metadata"]["uid"])
            one.owners.add(owner)
    live: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for event in _events(pods):
        _note_pod(seen, live, event)
    return seen


def _note_pod(
    seen: Seen, live: defaultdict[str, dict[str, tuple[int, int]]], event: Mapping[str, Any]
) -> None:
    """`live` are the pods of each task that run, with attempt and rank."""
    pod, status = event["object"], event["object"].get("status") or {}
    owner = next((one["name"] for one in pod["metadata"].get("ownerReferences") or ()), "")
    if not owner:
        return
    task, _, number = owner.rpartition("-")
    attempt, rank = int(number), int(pod["metadata"]["annotations"][_RANK])
    one, uid, phase = seen.attempts[task][attempt], pod["metadata"]["uid"], status.get("phase")
    is_told = "deletionTimestamp" in pod["metadata"]
    if phase == "Failed" and not is_told and not status.get("containerStatuses"):
        one.refused.add(rank)
    one.is_disrupted |= any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    if event["type"] == "DELETED" or phase != "Running":
        live[task].pop(uid, None)
        return
    beside = [other for name, other in live[task].items() if name != uid]
    seen.beside += [
        f"{task}: rank {rank} of attempt {attempt} ran beside rank {other[1]} of attempt {other[0]}"
        for other in beside
        if other[0] != attempt or other[1] == rank
    ]
    live[task][uid] = attempt, rank


def judge(
    task: Mapping[str, Any], status: Mapping[str, Any], runs: Sequence[Run], seen: Mapping[int, Attempt]
) -> Iterator[str]:
    """What is wrong with one task: its manifest, its status at the end, what ran, and its Jobs."""
    name, sort = task["metadata"]["name"], sort_of(task["metadata"]["name"])
    wrong = [
        *_judge_end(sort, task["spec"]["replicas"], status, runs),
        *_judge_runs(sort, runs),
        *_judge_jobs(status, seen),
        *_judge_counts(sort, status, runs, seen),
    ]
    return (f"{name}: {each}" for each in wrong)


def _judge_end(sort: Sort, ranks: int, status: Mapping[str, Any], runs: Sequence[Run]) -> Iterator[str]:
    reason = next(
        (one["reason"] for one in status.get("conditions") or () if one["type"] == status.get("phase")), ""
    )
    if (status.get("phase"), reason) != (sort.phase, sort.reason):
        yield f"ended as {status.get('phase')} {reason} and not as {sort.phase} {sort.reason}"
    done = {run.rank for run in runs if _is_done(run) and run.attempt == status.get("attempt")}
    if sort.phase == "Completed" and done != set(range(ranks)):
        yield f"of {ranks} ranks of the last attempt these came to their end: {sorted(done)}"


def _is_done(run: Run) -> bool:
    return run.code == 0 and not run.is_told


def _judge_runs(sort: Sort, runs: Sequence[Run]) -> Iterator[str]:
    ran: defaultdict[tuple[int, int], int] = defaultdict(int)
    for run in runs:
        ran[run.attempt, run.rank] += 1
        if run.code is not None and run.code not in (sort.codes if not run.is_told else {sort.told}):
            yield f"rank {run.rank} of attempt {run.attempt} ended with {run.code}"
    for (attempt, rank), count in ran.items():
        if count > 1:
            yield f"rank {rank} of attempt {attempt} ran {count} times"
    for run in runs:
        late = [one for one in runs if one.attempt < run.attempt and (one.ended_s or 0.0) > run.began_s]
        if late:
            yield f"attempt {run.attempt} began before attempt {late[0].attempt} had ended"


def _judge_jobs(status: Mapping[str, Any], seen: Mapping[int, Attempt]) -> Iterator[str]:
    if set(seen) != set(range(1, status.get("attempt", 0) + 1)):
        yield f"of {status.get('attempt')} attempts there were Jobs for {sorted(seen)}"
    for attempt, one in seen.items():
        if len(one.jobs) != 1:
            yield f"attempt {attempt} had {len(one.jobs)} Jobs"
        if len(one.owners) != 1:
            yield f"the Job of attempt {attempt} had {len(one.owners)} owners"


def _judge_counts(
    sort: Sort, status: Mapping[str, Any], runs: Sequence[Run], seen: Mapping[int, Attempt]
) -> Iterator[str]:
    """Each attempt that did not complete is one incident, or one disruption, by what happened in it."""
    counted = status.get("incidents", 0), status.get("disruptions", 0)
    least = most = 0
    last = status.get("attempt", 0)
    for attempt, one in seen.items():
        has_failed = any(run.attempt == attempt and run.code and not run.is_told for run in runs)
        is_forgiven = bool(one.refused) or one.is_disrupted
        if sort.phase == "Completed" and attempt == last:
            continue
        if not has_failed and not is_forgiven:
            yield f"attempt {attempt} was given up, and nothing had happened to it"
        least += has_failed and not is_forgiven
        most += has_failed
    if not least <= counted[0] <= most:
        yield f"{counted[0]} incidents were counted, and {least} to {most} happened"
    if sum(counted) != last - (sort.phase == "Completed"):
        yield f"{last} attempts, {counted[0]} incidents and {counted[1]} disruptions do not agree"
    if sort.reason == "RetriesUsed" and counted[0] != sort.retries + 1:
        yield f"with {sort.retries} retries it failed at incident {counted[0]}"
    if not any(one.refused or one.is_disrupted for one in seen.values()) and counted[0] != sort.incidents:
        yield f"{counted[0]} incidents were counted, and its program makes {sort.incidents}"
    if sort.is_evicted and not counted[1]:
        yield "it was evicted, and no disruption was counted"


def _objects(lines: str) -> Iterator[Mapping[str, Any]]:
    return (event["object"] for event in _events(lines))


def _events(lines: str) -> Iterator[Mapping[str, Any]]:
    """The events of a watch; its last line may be cut short."""
    whole: Iterable[str] = lines[: lines.rfind("\n") + 1].splitlines()
    for line in whole:
        event: Mapping[str, Any] = json.loads(line)
        assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
        yield event


def _controller(found: Mapping[str, Any]) -> str:
    owners = found["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")
