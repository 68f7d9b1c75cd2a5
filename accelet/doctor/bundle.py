"""What a support bundle holds: of everything that was seen the fields named here, and no other.

Names of objects, resources, taints and policies are in it, and amounts. Nothing that people write freely is:
no environment, arguments, images, labels, annotations, messages, reasons unknown to us, nor logs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from accelet.doctor.cluster.seen import ClusterSeen, NodeMachine, PodSeen, ProcessSeen
from accelet.doctor.examined import Examination
from accelet.doctor.node.seen import NodeSeen
from accelet.kube.objects import Amounts

MOST_OBJECTS = 5000
"""Of a kind; thousands of pods may wait."""

REASONS: Final = frozenset(
    {
        "UnexpectedAdmissionError", "Evicted", "ErrImagePull", "ImagePullBackOff", "InvalidImageName",
        "ErrImageNeverPull", "CrashLoopBackOff", "ContainerCreating", "PodInitializing", "RunContainerError",
        "CreateContainerError", "CreateContainerConfigError",
    }
)  # fmt: skip
"""The kubelet's own words. Whoever may write a pod's status may write others."""

COMPONENTS: Final = frozenset({"agent", "scheduler", "provisioner", "queue", "ui"})
_VERSION = re.compile(r"v\d{1,3}\.\d{1,3}\.\d{1,3}(-(alpha|beta|rc)\.\d{1,3})?")

Json = Mapping[str, Any]


def bundle_files(
    about: Json, examination: Examination, node: NodeSeen | None, cluster: ClusterSeen | None
) -> Mapping[str, bytes]:
    """The files of a bundle by name; `about` says when and with what version it was made."""
    files: dict[str, object] = {"about.json": about, "findings.json": _findings(examination)}
    if node is not None:
        files["node.json"] = _node(node)
    if cluster is not None:
        files["cluster.json"] = _cluster(cluster)
    return {name: msgspec.json.format(msgspec.json.encode(value), indent=1) for name, value in files.items()}


def _findings(examination: Examination) -> Json:
    """Without what others said, and without what was in order, which quotes them too."""
    return {
        "wrong": examination.wrong,
        "unseen": examination.unseen,
        "findings": [
            {
                "kind": one.kind,
                "check": verdict.check,
                "level": finding.level,
                "about": finding.about,
                "reason": finding.reason,
            }
            for one in examination.examined
            for verdict in one.verdicts
            for finding in verdict.findings
        ],
    }


def _node(seen: NodeSeen) -> Json:
    return {
        "name": seen.name,
        "folders": [{"path": one.path, "state": one.state} for one in seen.folders],
        "sockets": [
            {"path": one.path, "state": one.state} for one in (seen.kubelet_socket, *seen.other_sockets)
        ],
        "checkpoint": _counts(seen.checkpoint.devices, is_read=not seen.checkpoint.problem),
        "pod_resources": _counts(seen.pod_resources.devices, is_read=not seen.pod_resources.problem),
        "configuration": {
            "path": seen.configuration.path,
            "mistakes": len(seen.configuration.mistakes),
            "resources": [
                {
                    "name": one.name,
                    "is_plugin": one.is_plugin,
                    "healthy": len(one.healthy),
                    "unhealthy": len(one.unhealthy),
                    "is_scanned": not one.problem,
                }
                for one in seen.configuration.resources
            ],
        },
        "agent": {
            "is_running": seen.agent.is_running,
            "answers": not seen.agent.problem,
            "ready": [line.is_ok for line in seen.agent.lines],
            "ends": sum(seen.agent.ends.values()),
            "has_newest_configuration": seen.agent.has_newest_configuration,
        },
        "server": {
            "is_wanted": seen.server.is_wanted,
            "answers": not seen.server.problem,
            "ahead_s": seen.server.ahead_s,
            "rights": {one.right: one.is_given for one in seen.server.rights},
        },
    }


def _counts(devices: Mapping[str, frozenset[str]], *, is_read: bool) -> Json:
    return {"is_read": is_read, "devices": {name: len(ids) for name, ids in devices.items()}}


def _cluster(seen: ClusterSeen) -> Json:
    return {
        "now_s": seen.now_s,
        "version": _version(seen.version),
        "ahead_s": seen.ahead_s,
        "unseen": sorted(seen.unseen),
        "nodes": [_machine(one) for one in seen.machines[:MOST_OBJECTS]],
        "pods": [_pod(one) for one in seen.pods[:MOST_OBJECTS]],
        "processes": [_process(one) for one in seen.processes],
        "agents": [
            {
                "process": str(one.process),
                "mistakes": len(one.mistakes),
                "resources": one.resources,
                "publishes_cards": one.publishes_cards,
            }
            for one in seen.configs
        ],
        "policies": [
            {"kind": one.kind, "name": one.name, "fails_closed": one.fails_closed, "warnings": one.warnings}
            for one in seen.policies[:MOST_OBJECTS]
        ],
        "bindings": [
            {"kind": one.kind, "name": one.name, "policy": one.policy, "denies": one.denies}
            for one in seen.bindings[:MOST_OBJECTS]
        ],
        "leases": {
            component: lease
            and {"is_held": bool(lease.holder), "renewed_s": lease.renewed_s, "duration_s": lease.duration_s}
            for component, lease in seen.leases.items()
            if component in COMPONENTS
        },
        "rights": [
            {"user": one.process.user, "right": str(one.right), "is_given": one.is_given}
            for one in seen.rights
        ],
    }


def _version(text: str) -> str:
    found = _VERSION.match(text)
    return found[0] if found else ""


def _machine(machine: NodeMachine) -> Json:
    node = machine.node
    return {
        "name": node.name,
        "kubelet": _version(machine.kubelet),
        "ahead_s": machine.ahead_s,
        "is_ready": node.is_ready,
        "is_cordoned": node.unschedulable,
        "taints": [{"key": one.key, "effect": one.effect} for one in node.taints],
        "capacity": _amounts(node.capacity),
        "allocatable": _amounts(node.allocatable),
    }


def _amounts(amounts: Amounts) -> Json:
    return {name: str(amount) for name, amount in amounts.items() if "/" in name}


def _pod(one: PodSeen) -> Json:
    # Who looks at a node alone needs nothing of the scheduler, nor the extra that brings its numpy.
    from accelet.doctor.cluster.waiting import extended_resources  # noqa: PLC0415
    from accelet.scheduler.gangs.grouping import is_ours  # noqa: PLC0415

    pod = one.pod
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node_name,
        "phase": pod.phase,
        "created_s": pod.created_s,
        "is_going": pod.deleted_s is not None,
        "asks": extended_resources(pod),
        "our_gates": [gate for gate in pod.gates if is_ours(gate)],
        "other_gates": sum(not is_ours(gate) for gate in pod.gates),
        "reasons": sorted(REASONS & {one.reason, *one.stuck}),
    }


def _process(process: ProcessSeen) -> Json:
    return {
        "kind": process.kind,
        "namespace": process.namespace,
        "name": process.name,
        "component": process.component if process.component in COMPONENTS else "",
        "wanted": process.wanted,
        "ready": process.ready,
        "account": process.account,
        "config_map": process.config_map,
    }
