"""What follows when the API server says no: for how long it is not asked again, and what is told of it."""

from typing import Final

from accelet.gputask.deciding.view import MOST_PATIENCE_S, Obstacle
from accelet.gputask.objects.task import GpuTask
from accelet.kube.errors import ApiError, EndingError, InvalidError

FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0
_FIRST_BUSY_S: Final = 0.5
_MOST_DOUBLED: Final = 16


def obstacle_after(error: ApiError, task: GpuTask, before: Obstacle | None, now_s: float) -> Obstacle:
    """What is in the way after a refusal; `before` is what the one before it came to.

    What a right or a quota forbids is tried again after 10 s, doubled up to 5 min. What is invalid will be
    refused again until the task is another, and in a namespace that is deleted nothing is made any more: an
    hour. An API server that asks for patience is asked no sooner, whatever is written in the task.
    """
    tries = before.tries if before is not None and before.concerns(task) else 0
    doubled = 2.0 ** min(tries, _MOST_DOUBLED)
    said = " ".join(error.message.split())
    text = said or str(error)
    reason, wait_s, of_any = "JobRefused", min(FIRST_S * doubled, LONGEST_S), False
    if isinstance(error, EndingError):
        reason, wait_s, of_any = "NamespaceEnds", MOST_PATIENCE_S, True
    elif isinstance(error, InvalidError):
        wait_s = MOST_PATIENCE_S
    elif error.retry_after_s:
        wait_s = max(error.retry_after_s, min(_FIRST_BUSY_S * doubled, LONGEST_S))
        text = f"the API server cannot do it now, and is asked again: {said or error.reason}"
        reason, wait_s, of_any = "ApiBusy", min(wait_s, MOST_PATIENCE_S), True
    sentence = " ".join(text.split())
    return Obstacle(reason, sentence, task.generation, now_s + wait_s, tries + 1, of_any)
