"""What is written on the objects of a task, and what others write there."""

from typing import Final

TASK: Final = "accelet.dev/task"
TASK_UID: Final = "accelet.dev/task-uid"
ATTEMPT: Final = "accelet.dev/attempt"
RANK: Final = "batch.kubernetes.io/job-completion-index"
QUEUE: Final = "kueue.x-k8s.io/queue-name"

GANG_MIN: Final = "accelet.dev/gang-min"
"""With how many pods the scheduler may begin."""

MAIN: Final = "main"
"""The container of the program."""

CARDS_GATE: Final = "accelet.dev/cards"
GANG_GATE: Final = "gke.io/topology-aware-auto-"
"""A gate that begins with it makes a pod the scheduler's; what follows tells people whose it is."""


def job_name(task: str, attempt: int) -> str:
    return f"{task}-{attempt}"
