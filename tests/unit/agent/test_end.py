"""What the agent says when it cannot go on."""

from accelet.agent.process import explain_end
from accelet.runtime.run import FatalError


def test_every_task_that_ended_the_agent_is_named_once() -> None:
    group = ExceptionGroup(
        "tasks",
        [
            FatalError("the directory is dead"),
            ExceptionGroup("more", [KeyError("x"), FatalError("the directory is dead")]),
            FatalError("the mount is gone"),
        ],
    )
    assert str(explain_end(group)) == (
        "the directory is dead; a task failed by a fault of the agent (KeyError); the mount is gone"
    )
