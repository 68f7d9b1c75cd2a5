"""GPUTask of falldio.com/v1: the original's kind, with its five fields and a schema."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from accelet.kinds.definition import Column, Definition
from accelet.kinds.gputask import MOST_WHY, NAME_RULE, amount_rules
from accelet.kube.apiresources import ApiResource

ORIGINAL_TASKS: Final = ApiResource("GPUTask", "gputasks", "falldio.com", "v1")
MOST_CARDS: Final = 64

_Amount = Annotated[str, Meta(max_length=32)] | int
_Model = Annotated[
    str, Meta(min_length=1, max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
]


class OriginalTaskSpec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What the original read: it panicked on an amount that is none, and on a second event of a task.

    `gpu` is the model of the cards, `gpu-amount` how many, `priority` the name of a PriorityClass.
    """

    memory: _Amount
    cpu: _Amount
    gpu: _Model
    gpu_amount: _Amount
    priority: Annotated[str, Meta(max_length=253)] = ""

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        amount = "string(self.gpu__dash__amount)"
        return [
            *amount_rules("memory"),
            *amount_rules("cpu"),
            (
                f"{amount}.matches('^[1-9][0-9]?$') && int({amount}) <= {MOST_CARDS}",
                f"gpu-amount must be a whole number from 1 to {MOST_CARDS}",
            ),
            ("self == oldSelf", "a GPUTask of falldio.com cannot be changed: make another one"),
        ]


class OriginalTaskStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the GPUTask of accelet.dev is that is made of it; `Refused`: none is made, and why."""

    phase: Annotated[str, Meta(max_length=63)] = ""
    why: Annotated[str, Meta(max_length=MOST_WHY)] = ""


ORIGINAL_TASK_DEFINITION: Final = Definition(
    resource=ORIGINAL_TASKS,
    singular="gputask",
    short_names=(),
    spec=OriginalTaskSpec,
    status=OriginalTaskStatus,
    description="The original's task; a GPUTask of accelet.dev is made of it.",
    rules=(NAME_RULE,),
    columns=(
        Column("Model", ".spec.gpu"),
        Column("Cards", ".spec.gpu-amount"),
        Column("Phase", ".status.phase"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Why", ".status.why", priority=1),
    ),
)
