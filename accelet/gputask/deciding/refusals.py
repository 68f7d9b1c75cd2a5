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
    said = " ".join(error.message.split())
    if isinstance(error, EndingError):
        reason, of_any = "NamespaceEnds", True
    elif error.retry_after_s and not isinstance(error, InvalidError):
        reason, of_any = "ApiBusy", True
    else:
        reason, of_any = "JobRefused", False
    # A refusal of another kind is the first of its kind: what a quota forbids waits 10 s.
    is_again = before is not None and before.reason == reason and before.concerns(task)
    tries = before.tries if before is not None and is_again else 0
    doubled = 2.0 ** min(tries, _MOST_DOUBLED)
    text, wait_s = said or str(error), min(FIRST_S * doubled, LONGEST_S)
    if reason == "ApiBusy":
        wait_s = min(
            max(error.retry_after_s or 0.0, min(_FIRST_BUSY_S * doubled, LONGEST_S)), MOST_PATIENCE_S
        )
        text = f"the API server cannot do it now, and is asked again: {said or error.reason}"
    elif isinstance(error, EndingError | InvalidError):
        wait_s = MOST_PATIENCE_S
    sentence = " ".join(text.split())
    return Obstacle(reason, sentence, task.generation, now_s + wait_s, tries + 1, of_any)
