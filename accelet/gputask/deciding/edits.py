"""What follows for the Job of a task when its spec is edited.

A Job's template and failure policy cannot be changed. `suspend`, the number of ranks and the deadline can.
"""

from accelet.gputask.deciding.view import SetDeadline, SetReplicas, SetSuspended, TaskView
from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.launchers import read_world
from accelet.gputask.objects.task import GpuTask


def why_outdated(task: GpuTask, job: TaskJob) -> str:
    """Why the Job of a task cannot follow its spec any more, empty if it can. Then another attempt is made.

    Ranks that were told how many they are cannot be told another number. Where they were told a range, as an
    elastic task's, any number in it will do. Who restarts with whom may follow from the number of ranks.
    """
    told, now = job.world, read_world(task)
    if told is None:
        return ""  # made by a former version, which did not note it
    if "Rank" in (job.rules.restart, task.restart) and job.rules.restart != task.restart:
        return f"its number of ranks was changed to {task.spec.replicas}, and with it which ranks restart"
    if told != now and not _has_room(told, task):
        before = f"were told that they are {told}" if told else "were told of no others"
        return f"its number of ranks was changed to {task.spec.replicas}; those of this attempt {before}"
    return ""


def follow_edit(view: TaskView, job: TaskJob) -> SetSuspended | SetReplicas | SetDeadline | None:
    """The next change that makes a Job what its task says. In a queue, that suspends and resumes it."""
    spec = view.task.spec
    if spec.queue is None and job.is_suspended != spec.suspend:
        return SetSuspended(job, spec.suspend)
    if job.parallelism != spec.replicas:
        return SetReplicas(job, spec.replicas)
    return set_deadline(view, job)


def _has_room(told: str, task: GpuTask) -> bool:
    """Whether torchrun, told a range `MIN:MAX` of ranks, can go on with as many as there are to be now."""
    least, _, most = told.partition(":")
    is_range = task.meets and least.isdecimal() and most.isdecimal()
    return is_range and int(least) <= task.spec.replicas <= int(most)


def set_deadline(view: TaskView, job: TaskJob) -> SetDeadline | None:
    """The change of a Job's deadline that follows from an edit of the task's; None where there is none.

    The Job's clock has begun anew where it was suspended since. So its deadline is changed by as much as the
    task's was. A deadline that is new counts from the begin of the first attempt.
    """
    wanted = view.task.spec.deadline_seconds
    if job.is_deadline_noted and job.deadline_of == wanted:
        return None
    if wanted is None:
        return None if job.deadline_s is None and not job.is_deadline_noted else SetDeadline(job, None, None)
    if job.deadline_s is not None and job.deadline_of is not None:
        left_s = job.deadline_s + wanted - job.deadline_of
    else:
        has_clock = job.started_s > 0 and not job.is_suspended
        left_s = int(view.record.started_s + wanted - (job.started_s if has_clock else view.now_s))
    return SetDeadline(job, max(1, min(left_s, wanted)), wanted)
