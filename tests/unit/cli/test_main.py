"""The command line as a whole."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import accelet
from accelet.cli import main

COMMANDS = main.list_commands(main.make_context("accelet", [], resilient_parsing=True))


def test_version_is_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"accelet, version {accelet.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    answer = CliRunner().invoke(main, [name, "--help"])
    assert answer.exit_code == 0
    assert answer.output.startswith("Usage: ")


def test_unknown_command_is_a_mistake_of_the_arguments() -> None:
    assert CliRunner().invoke(main, ["agnet"]).exit_code == 2


def agents_modules() -> set[str]:
    """What an agent has imported before it knows what it serves."""
    code = "import sys, accelet.cli.agent; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(imported.stdout.split())


def test_agent_imports_neither_tables_nor_the_api_server() -> None:
    packages = {name.split(".")[0] for name in agents_modules()}
    assert {"rich", "kubernetes", "numpy", "pytest", "jsonschema"}.isdisjoint(packages)


@pytest.mark.parametrize(
    ("what", "modules"),
    [
        ("TPUs", {"accelet.accelerators.tpu.backend", "accelet.accelerators.tpu.scanning"}),
        ("assignments", {"deviceplugin.identity", "resourcemanager.matching", "resourcemanager.target"}),
        ("claims", {"accelet.dra.pool", "accelet.dra.preparing", "accelet.dra.publishing"}),
        ("sensors", {"accelet.agent.cardsensors", "accelet.accelerators.sensors.cardlook"}),
        ("cards on the Node", {"accelet.node.publishing.cardpublisher", "accelet.kube.selection"}),
    ],
)
def test_agent_imports_what_few_nodes_have_only_where_it_is_served(what: str, modules: set[str]) -> None:
    assert agents_modules().isdisjoint(modules), f"a node without {what} pays for them"
