"""What a scenario of a DRA driver may say."""

from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml


class _Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class AdmitClaims(_Act, frozen=True):
    """A pod with claims of these devices; a claim without devices is one that is there already.

    It is expected to run, or to be told of with these words in its events.
    """

    pod: str
    claims: dict[str, tuple[str, ...]]
    driver: str = "recording.example.com"
    expect: str | None = None


class OnClaimPod(_Act, frozen=True):
    """A pod, until it is gone and its claims are given back."""

    pod: str


class Answer(_Act, frozen=True):
    """What the driver answers from now on, or `times` times: an error, or (none given) as it should."""

    call: Literal["prepare", "unprepare"]
    error: str | None = None
    times: int | None = None


class Nothing(_Act, frozen=True):
    """There is nothing to say about it."""


class ClaimAct(_Act, frozen=True):
    """Exactly one of these. `publish` makes a ResourceSlice, `wiped` waits until a kubelet has removed it."""

    drive: Nothing | None = None
    admit: AdmitClaims | None = None
    remove: OnClaimPod | None = None
    behave: Answer | None = None
    look: Nothing | None = None
    stop_kubelet: Nothing | None = None
    start_kubelet: Nothing | None = None
    publish: Nothing | None = None
    close: Nothing | None = None
    wiped: Nothing | None = None

    @property
    def name(self) -> str:
        return next(name for name in self.__struct_fields__ if getattr(self, name) is not None)

    @property
    def action(self) -> Any:
        return getattr(self, self.name)


def read_claim_script(name: str) -> list[tuple[str, ClaimAct]]:
    """Each step with the line that stands over it in the transcript."""
    document = yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))
    return [(_heading(step), msgspec.convert(step, ClaimAct)) for step in document["steps"]]


def _heading(step: dict[str, Any]) -> str:
    return yaml.safe_dump(step, default_flow_style=True, sort_keys=False, width=10_000).strip()
