"""`accelet task move` against an API server, with scheduler and controller played here."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from accelet.cli import main
from accelet.fakeapi import FakeApi, Json
from tests.output_forms import read_form

TASKS, MOVES = "apis/accelet.dev/v1alpha1/gputasks", "apis/accelet.dev/v1alpha1/moves"
PLACE = {"rank": 0, "podUid": "pod-uid", "fromNode": "n0", "toNode": "n1"}


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    return api.write_kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def task(api: FakeApi) -> Json:
    body = {"metadata": {"name": "train"}, "spec": {"container": {"image": "app"}}}
    made: Json = api.state.create(TASKS, "ml", body)
    return made


def run(kubeconfig: Path, *words: str) -> Result:
    place = ["--kubeconfig", str(kubeconfig), "-n", "ml"]
    return CliRunner().invoke(main, ["task", words[0], *place, *words[1:]])


def propose(api: FakeApi, task: Json, name: str = "train-1", kind: str = "Person") -> None:
    spec = {
        "task": {"name": "train", "uid": task["metadata"]["uid"], "attempt": 1},
        "takes": {"pods": 1},
        "places": [PLACE],
        "gain": {"kind": kind, "text": "a person asked for it"},
        "validUntil": "2100-01-01T00:00:00Z",
    }
    api.state.create(MOVES, "ml", {"metadata": {"name": name}, "spec": spec})


def advance(api: FakeApi, phase: str, reason: str, why: str = "") -> None:
    status = {"phase": phase, "reason": reason, "why": why}
    api.state.patch(MOVES, ("ml", "train-1"), "merge-patch", {"status": status})


def said(api: FakeApi, key: str) -> str:
    found = api.state.get(TASKS, ("ml", "train"))["metadata"].get("annotations") or {}
    return str(found.get(f"accelet.dev/{key}", ""))


@contextmanager
def answering(api: FakeApi, key: str, answer: Callable[[], None]) -> Iterator[None]:
    """Somebody who answers once the annotation is there."""

    def work() -> None:
        with api.state.changed:
            while not said(api, key):
                api.state.changed.wait(30)
        answer()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def test_a_person_asks_and_is_told_what_becomes_of_it(api: FakeApi, kubeconfig: Path, task: Json) -> None:
    propose(api, task, "older")

    def answer() -> None:
        propose(api, task)
        advance(api, "Done", "Arrived")

    with answering(api, "move-to", answer):
        result = run(kubeconfig, "move", "train", "--to", "n1")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        "train-1: Done (Arrived); rank 0 from n0 to n1; a person asked for it"
    )
    assert "older" not in result.stdout
    assert said(api, "move-to").startswith("n1 20")


def test_a_move_that_is_withdrawn_is_exit_code_1_and_its_sentence(
    api: FakeApi, kubeconfig: Path, task: Json
) -> None:
    def answer() -> None:
        propose(api, task)
        advance(api, "Withdrawn", "Budget", "budget ml/keep allows 0 pods to end")

    with answering(api, "move-to", answer):
        result = run(kubeconfig, "move", "train", "--json")

    assert result.exit_code == 1
    status = read_form("task-move", result.stdout)["move"]["status"]
    assert (status["phase"], status["why"]) == ("Withdrawn", "budget ml/keep allows 0 pods to end")
    assert said(api, "move-to").startswith("* 20")


def test_a_person_approves_a_move_that_is_there(api: FakeApi, kubeconfig: Path, task: Json) -> None:
    propose(api, task, kind="LetsIn")
    result = run(kubeconfig, "move", "train", "--approve", "train-1", "--no-follow")

    assert (result.exit_code, result.stdout) == (0, "ml/train: train-1 is approved\n")
    assert said(api, "approve") == "train-1"
    assert not said(api, "move-to")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("train", "--approve", "train-9"), 1, "ml/train has no Move train-9"),
        (("train", "--approve", "train-1", "--to", "n1"), 2, "its places are in it"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_nothing_is_written(  # noqa: PLR0917 - fixtures
    api: FakeApi, kubeconfig: Path, task: Json, words: tuple[str, ...], code: int, sentence: str
) -> None:
    assert task
    result = run(kubeconfig, "move", *words)

    assert result.exit_code == code
    assert sentence in result.stderr
    assert not said(api, "approve") + said(api, "move-to")


def test_why_shows_the_moves_of_a_task_and_no_others(api: FakeApi, kubeconfig: Path, task: Json) -> None:
    other: dict[str, Any] = {"metadata": {"uid": "forerunner"}}
    propose(api, other, "train-0")
    propose(api, task)
    advance(api, "Saving", "Asked")
    shown = run(kubeconfig, "why", "train").stdout
    listed = read_form("task-why", run(kubeconfig, "why", "train", "--json").stdout)["moves"]

    assert "move train-1: Saving (Asked); rank 0 from n0 to n1; a person asked for it" in shown
    assert "train-0" not in shown
    assert [(one["name"], one["status"]["phase"]) for one in listed] == [("train-1", "Saving")]
