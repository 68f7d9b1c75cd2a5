"""The JSON schema of what each command prints with --json.

`python -m accelet.cli.drawing.jsonforms` prints it; `make schema` writes docs/output.schema.json.
"""

import json
from typing import Any

import msgspec

from accelet.cli.devices import Shown
from accelet.cli.explain import Explained
from accelet.doctor.examined import Examination
from accelet.fakekubelet.conformance.runner import Result
from accelet.scheduler.cards.view import ClusterView


class PlannedPod(msgspec.Struct, frozen=True):
    """`assignment` has the cards of containers that get any, in words."""

    pod: str
    node: str
    assignment: dict[str, str] = {}


class PlannedVictim(msgspec.Struct, frozen=True):
    name: str
    priority: int
    pods: list[str]


class PlannedPreemption(msgspec.Struct, frozen=True):
    """Who would be evicted, and where the job would be then; nobody and null where that does not help.

    `settled`: no other set of victims is better.
    """

    victims: list[PlannedVictim]
    placements: list[PlannedPod] | None
    settled: bool


class PlannedJob(msgspec.Struct, frozen=True):
    """`placements` is null for a job that must wait; then `reason` says why.

    `preemption` stands there with --preempt, where others may be evicted for the job.
    """

    name: str
    placements: list[PlannedPod] | None
    distance: int | None
    lower_bound: int | None
    optimal: bool
    reason: str | None
    preemption: PlannedPreemption | None = None


class PlannedJobs(msgspec.Struct, frozen=True):
    jobs: list[PlannedJob]


class JudgedChecks(msgspec.Struct, frozen=True):
    checks: list[Result]


FORMS: dict[str, type] = {
    "cards": ClusterView,
    "conformance": JudgedChecks,
    "devices": Shown,
    "doctor": Examination,
    "explain": Explained,
    "plan": PlannedJobs,
}
"""By command. `plan` and `conformance` print plain mappings of these forms, which a test holds them to."""


def make_schema() -> dict[str, Any]:
    """A JSON schema (draft 2020-12) whose `$defs` hold one form for each command, by its name."""
    forms, parts = msgspec.json.schema_components(list(FORMS.values()), ref_template="#/$defs/{name}")
    named = dict(zip(FORMS, forms, strict=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What accelet's commands print with --json: each command's form is #/$defs/COMMAND",
        "$defs": named | parts,
    }


if __name__ == "__main__":
    print(json.dumps(make_schema(), indent=2))  # noqa: T201 - what the command is for
