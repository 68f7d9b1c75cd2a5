"""`accelet demo tasks`: a move that lets a task in, without a cluster, in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from accelet.cli.drawing.output import Output
from accelet.cli.forms.taskdemo import TasksReport
from accelet.cli.subcommands.demo_tasks import print_story
from tests.output_forms import read_form

WORDS = [sys.executable, "-m", "accelet", "demo", "tasks"]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([*WORDS, "--json"], capture_output=True, text=True, timeout=110, check=True)
    shown: dict[str, Any] = read_form("demo-tasks", done.stdout)
    return shown


def _holders(view: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Task, node and card of each tile that is held."""
    for node in view["nodes"]:
        for card in node["cards"]:
            for holder in card["holders"]:
                yield holder["container"].split("/")[1].partition("-")[0], node["name"], card["card"]


def test_the_big_task_waits_though_there_are_tiles_enough(report: dict[str, Any]) -> None:
    assert "needs 1 node, the cluster has 0" in report["why"]
    (total,) = report["before"]["totals"]
    assert (total["tiles_free"], total["tiles"]) == (6, 12)
    assert "train" not in {task for task, _, _ in _holders(report["before"])}


def test_one_task_moves_and_nobody_else_and_the_big_one_gets_the_whole_node(report: dict[str, Any]) -> None:
    before, after = set(_holders(report["before"])), set(_holders(report["after"]))
    moved = {place for place in before if place[0] == report["moved"]}
    assert moved == {("embed", "node-1", "card0")}
    assert before - moved < after
    new = after - before
    assert {place for place in new if place[0] == "train"} == {
        ("train", "node-1", "card0"),
        ("train", "node-1", "card1"),
    }
    assert {place[1] for place in new if place[0] == "embed"} == {report["to"]}
    phases = [step["phase"] for step in report["steps"]]
    assert phases == ["Approved", "Held", "Saving", "Leaving", "Arriving", "Done"]


def test_people_read_the_same(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    print_story(Output(), msgspec.convert(report, TasksReport))
    shown = capsys.readouterr().out
    assert "train asks for two whole cards of one node, and waits:" in shown
    assert "  Leaving   it has saved, and is ended\n" in shown
    assert "embed goes on." in shown
