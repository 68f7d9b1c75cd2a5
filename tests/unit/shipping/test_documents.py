"""What the documents list is what the code has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from accelet.agent.metrics import AgentMetrics
from deviceplugin import plugin
from tests.shown_cards import labels_of_cards

PROJECT = Path(__file__).parent.parent.parent.parent
OPERATING = (PROJECT / "docs" / "operating.md").read_text()
SENSORS = (PROJECT / "docs" / "sensors.md").read_text()
AGENT_SOURCES = [
    *(PROJECT / "deviceplugin").rglob("*.py"),
    *(PROJECT / "accelet" / "agent").rglob("*.py"),
    *(PROJECT / "accelet" / "node").rglob("*.py"),
    *(PROJECT / "accelet" / "dra").rglob("*.py"),
    *(PROJECT / "accelet" / "runtime").rglob("*.py"),
    PROJECT / "accelet" / "cli" / "agent.py",
    PROJECT / "accelet" / "cli" / "ending.py",
    PROJECT / "accelet" / "kube" / "watching" / "reflector.py",
    PROJECT / "accelet" / "kube" / "watching" / "reliance.py",
    PROJECT / "accelet" / "kube" / "watching" / "watchrecord.py",
    PROJECT / "accelet" / "kube" / "recording" / "events.py",
]


def metrics() -> dict[str, tuple[str, ...]]:
    """The labels of each metric, by the name that Prometheus shows."""
    registry = AgentMetrics().registry
    named = {}
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        collector = registry._names_to_collectors.get(name)
        named[name] = tuple(getattr(collector, "_labelnames", ()))  # no public way to ask
    return {**named, **labels_of_cards()}


def rows(heading: str, document: str = OPERATING) -> Iterator[list[str]]:
    """The cells of the tables below a heading, without their heads."""
    section = re.split(r"^## ", document, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(heading))
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def logged_messages() -> set[str]:
    """Every constant message above debug that the agent's modules log."""
    calls = [
        call
        for path in AGENT_SOURCES
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
    ]
    return {message for call in calls for message in messages_of(call)}


def messages_of(call: ast.Call) -> Iterator[str]:
    """What a call of a log says, or has said while something fails and when that ends."""
    said: list[ast.expr] = []
    match call.func:
        case ast.Name("Failing"):
            said = call.args[1:]
        case ast.Attribute(
            ast.Name("_log") | ast.Attribute(attr="_log"), "info" | "warning" | "error" | "exception"
        ):
            said = call.args[:1]
    yield from (str(text.value) for text in said if isinstance(text, ast.Constant))


def test_table_of_metrics_lists_exactly_those_there_are() -> None:
    listed = {
        cells[0].strip("`"): tuple(label for label in cells[1].split(", ") if label)
        for cells in (*rows("Metrics"), *rows("Metrics", SENSORS))
        if cells[0].startswith("`")
    }
    assert listed == metrics()


def test_table_of_logs_lists_exactly_what_is_logged() -> None:
    listed = {message for cells in rows("Logs") for message in re.findall(r"`([^`]+)`", cells[1])} - {"msg"}
    assert listed == logged_messages()


def test_every_reason_of_being_unregistered_is_explained() -> None:
    for sentence in plugin._SENTENCES.values():
        assert f"`RESOURCE: {sentence}`" in OPERATING


def test_every_cause_and_outcome_of_a_registration_is_listed() -> None:
    by_name = {cells[0].strip("`"): cells[2] for cells in rows("Metrics")}
    causes = set(re.findall(r"`([^`]+)`", by_name["accelet_registration_ends_total"]))
    assert causes == set(plugin._SENTENCES)
