"""Judges the nodes of a cluster: their kubelets, their clocks, what they offer."""

import re
from collections.abc import Iterator, Sequence

from accelet.doctor.cluster.seen import ClusterSeen, NodeMachine
from accelet.doctor.findings import Finding, Verdict, judge, quoted, several

MOST_AHEAD_S = 5.0
OLDEST_MINOR = 26
"""The oldest kubelet whose behaviour is known to us (docs/fake-kubelet.md)."""

MOST_MINORS_OLDER = 3
"""By the version skew policy of Kubernetes."""

_VERSION = re.compile(r"v?1\.(\d{1,3})[.+-].*", re.DOTALL)


def judge_nodes(seen: ClusterSeen) -> Sequence[Verdict]:
    count = several(len(seen.machines), "node")
    known = sum(machine.ahead_s is not None for machine in seen.machines)
    return (
        judge(
            "versions", f"API server {quoted(seen.version)}, {count}" if seen.version else "", _versions(seen)
        ),
        judge("nodes", f"{count} ready" if seen.machines else "", _readiness(seen.machines)),
        judge(
            "clocks",
            f"{several(known, 'clock')} of nodes agree with the API server's" if known else "",
            _clocks(seen),
        ),
        judge("devices", _devices_fine(seen), _devices(seen)),
    )


def minor_of(version: str) -> int | None:
    """36 of `v1.36.2`; None of what is no version of Kubernetes 1."""
    found = _VERSION.fullmatch(version[:100])
    return int(found[1]) if found else None


def _versions(seen: ClusterSeen) -> Iterator[Finding]:
    server = minor_of(seen.version)
    for machine in seen.machines:
        kubelet = minor_of(machine.kubelet)
        if kubelet is None:
            continue
        about, cure = (
            machine.node.name,
            "Upgrade in the order that Kubernetes asks for: API server, then kubelets.",
        )
        if server is not None and kubelet > server:
            yield Finding(
                "wrong", about, f"its kubelet (1.{kubelet}) is newer than the API server (1.{server})", cure
            )
        elif server is not None and server - kubelet > MOST_MINORS_OLDER:
            yield Finding(
                "wrong", about, f"its kubelet (1.{kubelet}) is too old for the API server (1.{server})", cure
            )
        elif kubelet < OLDEST_MINOR:
            yield Finding(
                "note",
                about,
                f"kubelet 1.{kubelet} is older than any that accelet is tried with",
                "Upgrade it.",
            )


def _readiness(machines: Sequence[NodeMachine]) -> Iterator[Finding]:
    for machine in machines:
        node = machine.node
        if _is_down(machine):
            cure = f"See `kubectl describe node {node.name}`, and the kubelet's log on it."
            yield Finding("wrong", node.name, "the node is not ready", cure)
        elif node.unschedulable:
            yield Finding("note", node.name, "the node is cordoned", f"kubectl uncordon {node.name}")


def _is_down(machine: NodeMachine) -> bool:
    node = machine.node
    return not node.is_ready and any(condition.type == "Ready" for condition in node.conditions)


def _clocks(seen: ClusterSeen) -> Iterator[Finding]:
    cure = "Have it set by the network: `timedatectl` and `chronyc tracking` there say what it follows."
    for machine in seen.machines:
        if machine.ahead_s is not None and abs(machine.ahead_s) > MOST_AHEAD_S:
            yield Finding(
                "wrong", machine.node.name, f"its clock is {_apart(machine.ahead_s)} the API server's", cure
            )
    if seen.ahead_s is not None and abs(seen.ahead_s) > MOST_AHEAD_S:
        yield Finding("note", "this machine", f"its clock is {_apart(seen.ahead_s)} the API server's", cure)


def _apart(ahead_s: float) -> str:
    return f"{abs(ahead_s):,.0f} s {'ahead of' if ahead_s > 0 else 'behind'}"


def _served(seen: ClusterSeen) -> list[str]:
    return sorted({name for config in seen.configs for name in config.resources})


def _devices_fine(seen: ClusterSeen) -> str:
    names = _served(seen)
    totals = {name: sum(int(one.node.allocatable.get(name, 0)) for one in seen.machines) for name in names}
    offered = ", ".join(f"{name} {total:,}" for name, total in totals.items() if total)
    return f"offered: {offered}" if offered else ""


def _devices(seen: ClusterSeen) -> Iterator[Finding]:
    for machine in seen.machines:
        if _is_down(machine):
            continue  # that is what is wrong
        for name in _served(seen):
            has, gives = (
                int(amounts.get(name, 0)) for amounts in (machine.node.capacity, machine.node.allocatable)
            )
            if gives < has:
                cure = "Run `accelet doctor` in the agent's pod of that node: it says which, and why."
                yield Finding(
                    "wrong", machine.node.name, f"{has - gives:,} of {has:,} {name} cannot be given out", cure
                )
