"""`accelet task` against an API server."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from accelet.cli import main
from accelet.fakeapi import FakeApi

TASKS = "apis/accelet.dev/v1alpha1/gputasks"


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    return api.write_kubeconfig(tmp_path / "kubeconfig")


def run(kubeconfig: Path, *words: str, given: str | None = None) -> Result:
    place = ["--kubeconfig", str(kubeconfig), "-n", "ml"]
    return CliRunner().invoke(main, ["task", words[0], *place, *words[1:]], input=given)


def make(api: FakeApi, name: str, status: dict[str, Any] | None = None, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"container": {"image": "app"}, **spec}}
    api.state.create(TASKS, "ml", {**body, **({"status": status} if status else {})})


def stored(api: FakeApi) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in api.state.list(TASKS, {}, None)["items"]}


def condition(kind: str, truth: str, reason: str, message: str = "") -> dict[str, str]:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": truth, "reason": reason, "message": message, "lastTransitionTime": at}


def test_an_image_and_a_command_are_a_task(api: FakeApi, kubeconfig: Path) -> None:
    flags = ("--name", "train", "--ranks", "4", "--tiles", "2", "--level", "block", "--retries", "1")
    result = run(kubeconfig, "submit", *flags, "app:1", "--", "python", "-u", "train.py")

    assert (result.exit_code, result.stdout) == (0, "ml/train is submitted\n")
    assert stored(api)["train"]["spec"] == {
        "container": {"image": "app:1", "command": ["python", "-u", "train.py"]},
        "replicas": 4,
        "cards": {"tiles": 2},
        "network": {"requiredLevel": "block"},
        "onFailure": {"retries": 1},
    }


def test_without_a_name_the_image_has_one(kubeconfig: Path) -> None:
    result = run(kubeconfig, "submit", "--dry-run", "registry.example.com:5000/Team/2-Big_Model:v1@sha256:0")

    assert yaml.safe_load(result.stdout)["metadata"] == {"generateName": "task-2-big-model-"}


def test_a_file_is_submitted_unless_it_says_what_nobody_reads(api: FakeApi, kubeconfig: Path) -> None:
    head = "apiVersion: accelet.dev/v1alpha1\nkind: GPUTask\nmetadata: {name: train}\n"
    good = run(kubeconfig, "submit", "-f", "-", given=head + "spec: {container: {image: app}}")
    bad = run(
        kubeconfig,
        "submit",
        "-f",
        "-",
        given=head + "spec: {container: {image: app, env: [{nam: a}]}, tils: 1}",
    )

    assert good.exit_code == 0, good.output
    assert bad.exit_code == 2
    assert "spec.tils is unknown" in bad.stderr
    assert "spec.container.env[0].nam is unknown" in bad.stderr
    assert list(stored(api)) == ["train"]


def test_either_an_image_or_a_file(kubeconfig: Path) -> None:
    assert run(kubeconfig, "submit").exit_code == 2


def test_tasks_are_shown_with_what_holds_them_up(api: FakeApi, kubeconfig: Path) -> None:
    assert run(kubeconfig, "ps").stdout == "There are no tasks.\n"
    make(
        api,
        "train",
        {"phase": "Waiting", "attempt": 1, "why": "needs 4 nodes"},
        cards={"cards": 2, "tiles": 4},
    )
    make(api, "new")
    shown = run(kubeconfig, "ps", "-A").stdout

    assert "train" in shown
    assert "needs 4 nodes" in shown
    assert "2, 4 tiles" in shown
    found = json.loads(run(kubeconfig, "ps", "--json").stdout)["tasks"]
    assert [(one["name"], one["status"]["phase"]) for one in found] == [
        ("new", "Pending"),
        ("train", "Waiting"),
    ]


def test_why_goes_the_way_as_far_as_it_went(api: FakeApi, kubeconfig: Path) -> None:
    way = [
        condition("Accepted", "True", "JobMade"),
        condition("Admitted", "True", "Admitted"),
        condition("Placed", "False", "Waiting", "needs 4 nodes in one block, best has 3"),
        condition("Running", "False", "Starting", "0 of 4 ranks are ready"),
    ]
    make(api, "train", {"phase": "Waiting", "attempt": 2, "incidents": 1, "conditions": way})
    make(api, "new")
    failed = [condition("Failed", "True", "RetriesUsed", "rank 1 ended with exit code 3")]
    make(api, "lost", {"phase": "Failed", "conditions": failed})

    lines = run(kubeconfig, "why", "train").stdout.splitlines()
    assert lines == [
        "ml/train  Waiting",
        "  its Job is made",
        "  it may have pods",
        "  not yet: every rank has a node  Waiting: needs 4 nodes in one block, best has 3",
        "  attempt 2, 1 incidents, 0 disruptions, 0 retries left",
    ]
    assert "does accelet task-controller run?" in run(kubeconfig, "why", "new").stdout
    assert "Failed: RetriesUsed: rank 1 ended with exit code 3" in run(kubeconfig, "why", "lost").stdout


def test_what_somebody_wrote_is_text(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train", {"phase": "Waiting", "why": "\x1b[31m[bold]evil[/bold]"})

    assert "\\x1b[31m[bold]evil[/bold]" in run(kubeconfig, "ps").stdout


def test_a_task_is_suspended_resumed_and_deleted(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train")
    assert run(kubeconfig, "suspend", "train").exit_code == 0
    assert stored(api)["train"]["spec"]["suspend"] is True
    assert run(kubeconfig, "resume", "train").exit_code == 0
    assert stored(api)["train"]["spec"]["suspend"] is False
    assert run(kubeconfig, "rm", "train").exit_code == 0
    assert stored(api) == {}


def test_a_task_that_is_not_there_is_one_sentence(kubeconfig: Path) -> None:
    for word in ("why", "suspend", "resume", "rm"):
        result = run(kubeconfig, word, "nothing")
        assert result.exit_code == 1
        assert "nothing" in result.stderr or "GPUTasks" in result.stderr
        assert "Traceback" not in result.output
