"""`accelet task` against an API server."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from accelet.cli import main
from accelet.fakeapi import FakeApi
from tests.output_forms import read_form

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
    found = read_form("task-ps", run(kubeconfig, "ps", "--json").stdout)["tasks"]
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
    assert read_form("task-why", run(kubeconfig, "why", "train", "--json").stdout)["status"]["incidents"] == 1
    assert "does accelet task-controller run?" in run(kubeconfig, "why", "new").stdout
    assert "Failed: RetriesUsed: rank 1 ended with exit code 3" in run(kubeconfig, "why", "lost").stdout


def test_what_somebody_wrote_is_text(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train", {"phase": "Waiting", "why": "\x1b[31m[bold]evil[/bold]"})

    assert "\\x1b[31m[bold]evil[/bold]" in run(kubeconfig, "ps").stdout


def _run_ranks(api: FakeApi, *, phase: str, logs: dict[int, bytes], attempt: int = 1) -> None:
    uid = stored(api)["train"]["metadata"]["uid"]
    labels = {"accelet.dev/task-uid": uid, "accelet.dev/attempt": str(attempt)}
    for rank, log in logs.items():
        name = f"train-{attempt}-{rank}"
        rank_of = {"batch.kubernetes.io/job-completion-index": str(rank)}
        metadata = {"name": name, "labels": labels, "annotations": rank_of}
        api.state.create("api/v1/pods", "ml", {"metadata": metadata, "spec": {}, "status": {"phase": phase}})
        api.logs["ml", name] = log


def test_logs_are_those_of_the_ranks_in_their_order(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train", {"phase": "Running", "attempt": 2})
    _run_ranks(api, phase="Running", logs={10: b"ten\r\nmore", 2: b"two\n", 0: b""}, attempt=2)
    _run_ranks(api, phase="Failed", logs={2: b"before\n"})
    metadata = {"name": "stray", "labels": {"accelet.dev/task-uid": "another"}}
    api.state.create("api/v1/pods", "ml", {"metadata": metadata, "spec": {}})

    assert run(kubeconfig, "logs", "train").stdout == "   2 | two\n  10 | ten\n  10 | more\n"
    assert run(kubeconfig, "logs", "train", "--rank", "0-2").stdout == "   2 | two\n"
    assert run(kubeconfig, "logs", "train", "--attempt", "1").stdout == "   2 | before\n"
    nothing = run(kubeconfig, "logs", "train", "--rank", "5")
    assert (nothing.stdout, nothing.exit_code) == ("", 0)
    assert "has no such rank with a pod in attempt 2" in nothing.stderr
    wrong = run(kubeconfig, "logs", "train", "--rank", "0-3,x")
    assert wrong.exit_code == 2
    assert "names no ranks" in wrong.stderr


def test_what_a_program_wrote_is_text_of_bounded_lines(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train", {"phase": "Running", "attempt": 1})
    evil = b"\x1b]0;owned\x07[bold]x[/bold]\xff\x00\t|\xe2\x80\xae\n" + b"a" * 3_000_000
    _run_ranks(api, phase="Running", logs={0: evil})
    first, *rest = run(kubeconfig, "logs", "train").stdout.splitlines()

    assert first.startswith("   0 | \\x1b]0;owned\\x07[bold]x[/bold]\\xff\\x00")
    assert first.endswith("|\\u202e")
    assert all(sign.isprintable() for sign in first)
    assert {len(line) for line in rest} <= {len("   0 | ") + 16_384, len("   0 | ") + 3_000_000 % 16_384}
    assert sum(line.count("a") for line in rest) == 3_000_000


def test_logs_are_followed_until_the_task_has_ended(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train", {"phase": "Completed", "attempt": 1})
    _run_ranks(api, phase="Succeeded", logs={0: b"first\n", 1: b"second\n"})
    result = run(kubeconfig, "logs", "train", "-f")

    assert sorted(result.stdout.splitlines()) == ["   0 | first", "   1 | second"]
    assert {seen.query.get("follow") for seen in api.seen if seen.path.endswith("/log")} == {"true"}


def test_the_log_of_a_rank_that_has_not_begun_or_is_gone_is_a_sentence(
    api: FakeApi, kubeconfig: Path
) -> None:
    make(api, "train", {"phase": "Starting", "attempt": 1})
    _run_ranks(api, phase="Pending", logs={0: b"", 1: b"good\n"})
    del api.logs["ml", "train-1-0"]
    result = run(kubeconfig, "logs", "train")

    assert result.stdout == "   1 | good\n"
    assert 'rank 0: container "main" in pod "train-1-0" is waiting to start' in result.stderr


def test_a_task_is_suspended_resumed_and_deleted(api: FakeApi, kubeconfig: Path) -> None:
    make(api, "train")
    assert run(kubeconfig, "suspend", "train").exit_code == 0
    assert stored(api)["train"]["spec"]["suspend"] is True
    assert run(kubeconfig, "resume", "train").exit_code == 0
    assert stored(api)["train"]["spec"]["suspend"] is False
    assert run(kubeconfig, "rm", "train").exit_code == 0
    assert stored(api) == {}


def test_a_task_that_is_not_there_is_one_sentence(kubeconfig: Path) -> None:
    for word in ("why", "suspend", "resume", "rm", "logs"):
        result = run(kubeconfig, word, "nothing")
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert "nothing" in result.stderr or "GPUTasks" in result.stderr
        assert "Traceback" not in result.output
