"""The JSON schema of what each command prints with --json.

`python -m accelet.cli.forms.jsonforms` prints it; `make schema` writes docs/output.schema.json.
"""

import json
from typing import Any

import msgspec

from accelet.cli.forms.demoforms import DraReport, ProvisionerReport, Report
from accelet.cli.forms.deviceforms import Shown
from accelet.cli.forms.explained import Explained
from accelet.cli.forms.plainforms import (
    ExplainedTask,
    FollowedMove,
    JudgedChecks,
    KubeletEvent,
    OfflineSlices,
    PlannedJobs,
    ShownSlices,
    ShownTasks,
)
from accelet.cli.forms.taskdemo import TasksReport
from accelet.doctor.examined import Examination
from accelet.scheduler.cards.view import ClusterView
from accelet.scheduler.claims.outlook import ClaimsView

FORMS: dict[str, type] = {
    "cards": ClusterView,
    "claims": ClaimsView,
    "conformance": JudgedChecks,
    "demo": Report,
    "demo-dra": DraReport,
    "demo-provisioner": ProvisionerReport,
    "demo-tasks": TasksReport,
    "devices": Shown,
    "doctor": Examination,
    "explain": Explained,
    "fake-kubelet": KubeletEvent,
    "plan": PlannedJobs,
    "slices": ShownSlices,
    "slices-plan": OfflineSlices,
    "task-ps": ShownTasks,
    "task-move": FollowedMove,
    "task-why": ExplainedTask,
}
"""By command, its words joined by hyphens. `devices --dra` prints the API's own ResourceSlices instead."""


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
