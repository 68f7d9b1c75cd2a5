"""deploy/monitoring asks for nothing that is not measured, and docs/operating.md explains every alert."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from accelet.agent.metrics import AgentMetrics
from accelet.fakeapi import FakeApi
from accelet.gputask.metrics import TaskMetrics
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.scheduler.metrics import SchedulerMetrics
from tests.free_ports import free_port
from tests.shown_cards import labels_of_cards

PROJECT = Path(__file__).parents[3]
MONITORING = PROJECT / "deploy" / "monitoring"
OPERATING = (PROJECT / "docs" / "operating.md").read_text()
PARTS = ("agent", "scheduler", "provisioner", "tasks")
ADDED = {"node", "instance", "le", "job", "namespace", "deployment", "daemonset"}
"""Labels that the PodMonitor, Prometheus, histograms and kube-state-metrics bring."""

FOREIGN = re.compile(r"\bkube_\w+|\bup\{")
"""What kube-state-metrics and Prometheus itself tell."""

_OF_FAMILY = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


@dataclass(frozen=True, slots=True)
class Asked:
    """One PromQL expression, and the text that people see of its series."""

    where: str
    expression: str
    text: str

    @property
    def names(self) -> set[str]:
        return set(re.findall(r"\baccelet_\w+", self.expression))

    @property
    def labels(self) -> set[str]:
        grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", self.expression)
        matched = re.findall(r"\{([^}]*)\}", self.expression)
        found = {label.strip() for group in grouped for label in group.split(",") if label.strip()}
        found |= {label for group in matched for label in re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\"", group)}
        return found | set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", self.text))


def rules() -> Iterator[tuple[str, dict[str, object]]]:
    for part in PARTS:
        document = yaml.safe_load((MONITORING / f"{part}-alerts.yaml").read_text())
        yield from ((part, rule) for group in document["spec"]["groups"] for rule in group["rules"])


def asked() -> Iterator[Asked]:
    for _, rule in rules():
        yield Asked(str(rule["alert"]), str(rule["expr"]), str(rule["annotations"]))
    for path in sorted((MONITORING / "dashboards").glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield Asked(f"{path.stem}: {panel['title']}", target["expr"], target["legendFormat"])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield Asked(f"{path.stem}: {variable['name']}", variable["query"]["query"], "")


def labels_of_each() -> Mapping[str, set[str]]:
    """The labels of each series, by the name that Prometheus knows it by."""
    registry = CollectorRegistry()
    SchedulerMetrics(registry)
    ProvisionerMetrics(registry)
    TaskMetrics(registry)
    found, of_cards = {}, labels_of_cards()
    for collected in (registry, AgentMetrics().registry):
        for name, collector in collected._names_to_collectors.items():
            # No public way to ask.
            found[name] = set(getattr(collector, "_labelnames", ())) | set(of_cards.get(name, ()))
    return found


@asynccontextmanager
async def running(words: Sequence[str], port: int) -> AsyncIterator[None]:
    command = [sys.executable, "-m", "accelet", *words, "--http", f"127.0.0.1:{port}"]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def metrics_of(words: Sequence[str]) -> set[str]:
    """What a process of its own serves on /metrics, once it answers."""
    port = free_port()

    def read() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    async with running(words, port), asyncio.timeout(60):
        while True:
            try:
                text = await asyncio.to_thread(read)
            except (OSError, HTTPException):
                await asyncio.sleep(0.1)
                continue
            families = text_string_to_metric_families(text)
            return {
                f"{family.name}{end}" for family in families for end in _OF_FAMILY.get(family.type, ("",))
            }


async def test_every_metric_that_is_asked_for_is_in_a_running_process(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("version: v1\nresources: []\n")
    with FakeApi() as api:
        cluster = ["--kubeconfig", str(api.write_kubeconfig(tmp_path / "kubeconfig"))]
        folder = ["--kubelet-dir", str(tmp_path), "--host-root", str(tmp_path)]
        served = await asyncio.gather(
            metrics_of(["agent", *folder, "--config", str(tmp_path / "config.yaml")]),
            metrics_of(["scheduler", *cluster]),
            metrics_of(["provisioner", *cluster]),
            metrics_of(["task-controller", *cluster]),
        )
    there = set[str]().union(*served)
    missing = {one.where: one.names - there for one in asked() if not one.names <= there}
    assert missing == {}
    assert all(one.names or FOREIGN.search(one.expression) for one in asked())
    assert all({"process_cpu_seconds_total", "process_resident_memory_bytes"} <= each for each in served)


def test_every_label_that_is_asked_for_is_one_of_the_metrics() -> None:
    labels = labels_of_each()
    for one in asked():
        known = ADDED.union(*(labels[name] for name in one.names))
        assert one.labels - {"value"} <= known, one.where


@pytest.mark.parametrize(
    ("part", "rule"), list(rules()), ids=lambda each: each if isinstance(each, str) else str(each["alert"])
)
def test_each_alert_says_where_it_is_explained_and_is_explained_there(
    part: str, rule: dict[str, dict[str, str]]
) -> None:
    assert {"summary", "description", "runbook"} == rule["annotations"].keys()
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert path == "docs/operating.md"
    (section,) = (
        each
        for each in re.split(r"^## ", OPERATING, flags=re.MULTILINE)
        if each.partition("\n")[0].lower().replace(" ", "-") == anchor
    )
    assert f"\n| {rule['alert']} |" in section


def test_no_alert_fires_by_the_absence_of_what_may_not_be_installed() -> None:
    """Whatever makes a series out of nothing is bound to a sign that there should be one."""
    for _, rule in rules():
        expression = str(rule["expr"])
        if "vector(" in expression or "absent" in expression:
            installed = expression.partition("and on ()")[2]
            assert "kube_deployment_spec_replicas" in installed, rule["alert"]
            assert "count_over_time" in installed, rule["alert"]


def test_every_alert_that_is_explained_is_there() -> None:
    told = set(re.findall(r"^\| (Accelet\w+) \|", OPERATING, flags=re.MULTILINE))
    assert told == {str(rule["alert"]) for _, rule in rules()}


def test_each_pod_monitor_finds_the_pods_and_the_port_of_its_part() -> None:
    files = (
        "agent/daemonset.yaml",
        "scheduler.yaml",
        "provisioner/provisioner.yaml",
        "tasks/controller.yaml",
    )
    for part, file in zip(PARTS, files, strict=True):
        (monitor,) = yaml.safe_load_all((MONITORING / f"{part}-podmonitor.yaml").read_text())
        documents = yaml.safe_load_all((PROJECT / "deploy" / file).read_text())
        (workload,) = (one for one in documents if one and one["kind"] in ("DaemonSet", "Deployment"))
        template = workload["spec"]["template"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        ports = [port["name"] for each in template["spec"]["containers"] for port in each["ports"]]
        assert endpoint["port"] in ports
        assert monitor["metadata"]["namespace"] == workload["metadata"]["namespace"]
