"""The alerts of deploy/monitoring by the engine of Prometheus: when they fire, and when nobody is paged."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster.binaries import Binaries

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
PARTS = ("agent", "scheduler", "provisioner", "tasks")
COREDNS = 'kube_deployment_spec_replicas{namespace="kube-system",deployment="coredns"} 2+0x30'
LEADERS = {
    "AcceletSchedulerNotLeading": ("accelet_scheduler_leading", "accelet-scheduler"),
    "AcceletProvisionerNotLeading": ("accelet_provisioner_leading", "accelet-provisioner"),
    "AcceletTasksNotLeading": ("accelet_tasks_leading", "accelet-task-controller"),
}
AGENTS = '{namespace="kube-system",daemonset="accelet-agent-flex"}'


@dataclass(frozen=True)
class Case:
    """Series of a minute's step, and what an alert's expression gives `at` that time."""

    alert: str
    at: str
    series: Sequence[str]
    gives: Sequence[str]


def expressions() -> dict[str, str]:
    return {
        rule["alert"]: " ".join(rule["expr"].split())
        for part in PARTS
        for group in yaml.safe_load((MONITORING / f"{part}-alerts.yaml").read_text())["spec"]["groups"]
        for rule in group["rules"]
    }


def script_of(cases: Sequence[Case]) -> str:
    known = expressions()
    lines: list[str] = []
    for case in cases:
        lines += ["clear", "load 1m", *(f"  {one}" for one in case.series or ("unrelated 1+0x30",))]
        lines += ["", f"eval instant at {case.at} {known[case.alert]}", *(f"  {one}" for one in case.gives)]
        lines += [""]
    return "\n".join(lines)


def cases_of_leaders(alert: str) -> Sequence[Case]:
    leading, deployment = LEADERS[alert]
    wanted = f'kube_deployment_spec_replicas{{namespace="kube-system",deployment="{deployment}"}}'
    one, other = f'{leading}{{pod="a"}}', f'{leading}{{pod="b"}}'
    return [
        Case(alert, "10m", [], []),
        Case(alert, "10m", [COREDNS], []),
        Case(alert, "10m", [f"{wanted} 2+0x30", f"{one} 1+0x30", f"{other} 0+0x30"], []),
        Case(alert, "10m", [f"{wanted} 2+0x30", f"{one} 0+0x30", f"{other} 0+0x30"], ["{} 0"]),
        Case(alert, "10m", [f"{wanted} 2+0x30", f"{one} 1+0x30", f"{other} 1+0x30"], ["{} 2"]),
        Case(alert, "10m", [f"{wanted} 2+0x30"], ["{} 0"]),
        # Scaled to none, and uninstalled, where kube-state-metrics tells.
        Case(alert, "20m", [f"{wanted} 0+0x30", f"{one} 1+0x2"], []),
        Case(alert, "20m", [COREDNS, f"{one} 1+0x2"], []),
        # Without kube-state-metrics: for a day.
        Case(alert, "10m", [f"{one} 1+0x30"], []),
        Case(alert, "20m", [f"{one} 1+0x2"], ["{} 0"]),
        Case(alert, "1400m", [f"{one} 1+0x2"], ["{} 0"]),
        Case(alert, "1500m", [f"{one} 1+0x2"], []),
    ]


def run(binaries: Binaries, folder: Path, cases: Sequence[Case]) -> None:
    script = folder / "script"
    script.write_text(script_of(cases))
    done = subprocess.run(
        [binaries.path("promql"), script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", LEADERS)
def test_nobody_is_paged_for_what_is_not_installed_and_somebody_for_what_is(
    promql_binaries: Binaries, tmp_path: Path, alert: str
) -> None:
    run(promql_binaries, tmp_path, cases_of_leaders(alert))


def test_agents_that_are_missing_or_silent_are_told(promql_binaries: Binaries, tmp_path: Path) -> None:
    wanted = f"kube_daemonset_status_desired_number_scheduled{AGENTS} 5+0x30"
    ready = f"kube_daemonset_status_number_ready{AGENTS}"
    silent = 'up{job="kube-system/accelet-agent",node="a"}'
    others = ['up{job="other",node="a"} 0+0x30', 'up{job="accelet-agent",node="b"} 1+0x30']
    cases = [
        Case("AcceletAgentMissing", "10m", [wanted, f"{ready} 3+0x30"], [f"{AGENTS} 2"]),
        Case("AcceletAgentMissing", "10m", [wanted, f"{ready} 5+0x30"], []),
        Case("AcceletAgentSilent", "10m", [f"{silent} 0+0x30", *others], [f"{silent} 0"]),
        Case("AcceletAgentSilent", "10m", [f"{silent} 1+0x30", *others], []),
    ]
    run(promql_binaries, tmp_path, cases)


def test_no_alert_fires_where_nothing_is_installed(promql_binaries: Binaries, tmp_path: Path) -> None:
    run(promql_binaries, tmp_path, [Case(alert, "10m", [], []) for alert in expressions()])


def test_a_wrong_expectation_is_not_met(promql_binaries: Binaries, tmp_path: Path) -> None:
    """What would pass whatever is asked shows nothing."""
    with pytest.raises(AssertionError, match="FAIL"):
        run(promql_binaries, tmp_path, [Case("AcceletAgentSilent", "10m", [], ["{} 1"])])
