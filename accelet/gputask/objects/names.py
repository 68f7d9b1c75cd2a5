"""What is written on the objects of a task, and what others write there."""

from typing import Final

TASK: Final = "accelet.dev/task"
TASK_UID: Final = "accelet.dev/task-uid"
ATTEMPT: Final = "accelet.dev/attempt"
RANK: Final = "batch.kubernetes.io/job-completion-index"
QUEUE: Final = "kueue.x-k8s.io/queue-name"

WORLD: Final = "accelet.dev/world"
"""On a Job: the number of ranks that its pods were told, as PET_NNODES says it."""

DEADLINE: Final = "accelet.dev/deadline-seconds"
"""On a Job: the `deadlineSeconds` of its task that its own deadline comes from."""

GANG_MIN: Final = "accelet.dev/gang-min"
"""With how many pods the scheduler may begin."""

MAIN: Final = "main"
"""The container of the program."""

RULES: Final = "restartPolicyRules"
"""The field of a container with the rules by which it is started again."""

RESTART_ALL_CONTAINERS: Final = "RestartAllContainers"
"""The rule of a container by which its kubelet starts all containers of the pod again."""

APPROVE: Final = "accelet.dev/approve"
"""On a task: the name of a Move that a person approves."""

SAVE: Final = "accelet.dev/save"
"""On a pod: the UID of the Move that is about to end it, and until when it may save, in RFC 3339."""

SAVED: Final = "accelet.dev/saved"
"""On a pod, by its program: the UID of the Move for which it has saved."""

CARDS_GATE: Final = "accelet.dev/cards"
GANG_GATE: Final = "gke.io/topology-aware-auto-"
"""A gate that begins with it makes a pod the scheduler's; what follows tells people whose it is."""


def job_name(task: str, attempt: int) -> str:
    return f"{task}-{attempt}"
