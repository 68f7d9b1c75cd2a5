"""What commands print with --json has the form that docs/output.schema.json tells."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION
from accelet.cli import main
from accelet.cli.forms.jsonforms import FORMS, make_schema
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import GUESTS
from tests.output_forms import read_form

GPU = "gpu.intel.com/i915"
CARD = {
    "id": "0000-03-00.0",
    "resource": GPU,
    "pci": "0000:03:00.0",
    "card": "card0",
    "tiles": 2,
    "shares": 4,
}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: "4"}
    cards = json.dumps({"version": 1, "cards": [CARD]})
    metadata = {"name": name, "annotations": {NODE_CARDS_ANNOTATION: cards}}
    return {"kind": "Node", "metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}


def pod(name: str, amount: int) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {GPU: str(amount)}}}
    spec = {"containers": [container], "schedulingGates": [{"name": "gke.io/topology-aware-auto-x"}]}
    labels = {"job-name": name}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ml", "labels": labels}, "spec": spec}


def lists(folder: Path) -> Sequence[str]:
    """A job that has room, and one that has none."""
    for file, items in (("nodes", [node("a"), node("b")]), ("pods", [pod("fits", 1), pod("waits", 9)])):
        (folder / file).write_text(json.dumps({"kind": "List", "items": items}))
    return "--nodes", str(folder / "nodes"), "--pods", str(folder / "pods")


def words(command: str, folder: Path) -> Sequence[str]:
    if command in ("cards", "plan"):
        return lists(folder)
    config = folder / "config.yaml"
    config.write_text(f"version: v1\nresources:\n- {{name: {GPU}, backend: intel-gpu}}\n")
    host = ("--config", str(config), "--kubelet-dir", str(folder), "--host-root", str(folder))
    return (*host, "--look-at", "node", "--http", "127.0.0.1:1") if command == "doctor" else host


@pytest.mark.parametrize("command", ["cards", "devices", "doctor", "plan"])
def test_what_is_printed_has_the_form_that_is_told(command: str, tmp_path: Path) -> None:
    write_gpus(tmp_path, GUESTS)
    done = CliRunner().invoke(main, [command, *words(command, tmp_path), "--json"])
    printed = read_form(command, done.stdout)
    assert all(printed.values()) or command == "doctor", "an empty answer would have any form"


def test_every_command_that_prints_json_has_a_form() -> None:
    assert sorted(commands_with_json(main)) == sorted(FORMS)


def commands_with_json(command: click.Command, *path: str) -> Iterator[str]:
    if any("--json" in parameter.opts for parameter in command.params):
        yield "-".join(path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands_with_json(found, *path, name)


def test_every_form_is_in_the_schema() -> None:
    written = json.loads((Path(__file__).parents[3] / "docs" / "output.schema.json").read_text())
    assert written == json.loads(json.dumps(make_schema()))
    assert FORMS.keys() <= written["$defs"].keys()


def test_the_skipped_card_of_the_readme_is_skipped_so(tmp_path: Path) -> None:
    write_gpus(tmp_path, GUESTS)
    printed = CliRunner().invoke(main, ["devices", *words("devices", tmp_path), "--json"]).stdout
    (guest,) = (one for one in json.loads(printed)["skipped"] if "vfio" in one["reason"])
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert f"{guest['code']}  {guest['reason']}\n" in readme
