"""The pod template of a task's Job."""

from collections.abc import Sequence
from typing import Any

import msgspec

from accelet.gputask.objects.launchers import (
    DEFAULT_CLUSTER_DOMAIN,
    PARTS_DOMAIN,
    meeting_environment,
    process_environment,
)
from accelet.gputask.objects.names import (
    ATTEMPT,
    CARDS_GATE,
    GANG_MIN,
    MAIN,
    RANK,
    RESTART_ALL_CONTAINERS,
    RULES,
    SAVE,
    TASK,
    TASK_UID,
)
from accelet.gputask.objects.overlay import lay_over
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import (
    SHARED_MEMORY,
    TaskCards,
    TaskContainer,
    TaskSource,
    TaskVariable,
    TaskVolume,
)

_LONGEST_GATE = 63

_SHM_VOLUME = "accelet-shm"
_ASKED_VOLUME = "accelet-asked"
ASKED_FOLDER = "/run/accelet/task"
ASKED_FILE = f"{ASKED_FOLDER}/save"
"""Where a program reads what its pod says by `accelet.dev/save`: empty until it is asked to save."""


def pod_template(
    task: GpuTask, attempt: int, gate_prefix: str, cluster_domain: str = DEFAULT_CLUSTER_DOMAIN
) -> dict[str, Any]:
    """The template as JSON. Each pod has a gang's gate, so that all ranks are placed or none.

    Raises:
        OverlayError: what the author's own `template` says cannot be laid over it.
    """
    spec = task.spec
    gates = [{"name": _gate(gate_prefix, task.name)}]
    if spec.cards is not None and _domain(spec.cards) == PARTS_DOMAIN:
        gates.append({"name": CARDS_GATE})
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "schedulingGates": gates,
        "terminationGracePeriodSeconds": spec.grace_seconds,
        "containers": [_container(task, attempt, cluster_domain)],
    }
    optional = {
        "subdomain": task.name if task.meets else None,
        "priorityClassName": spec.priority_class_name,
        "serviceAccountName": spec.service_account_name,
        "nodeSelector": spec.node_selector,
        "tolerations": [msgspec.to_builtins(one) for one in spec.tolerations],
        "imagePullSecrets": [msgspec.to_builtins(one) for one in spec.image_pull_secrets],
        "runtimeClassName": spec.runtime_class_name,
        "securityContext": _as_json(spec.security_context),
        "volumes": [
            *(_volume(index, one) for index, one in enumerate(spec.container.volumes)),
            *([_shm_volume(spec.container)] if spec.container.shm_size is not None else []),
            *([_asked_volume()] if _is_asked(task) else []),
        ],
    }
    body |= {name: value for name, value in optional.items() if value}
    labels = {**spec.pod_labels, TASK: task.name, TASK_UID: task.uid, ATTEMPT: str(attempt)}
    annotations = {**spec.pod_annotations, **_annotations(task)}
    return lay_over({"metadata": {"labels": labels, "annotations": annotations}, "spec": body}, spec.template)


def _gate(prefix: str, task: str) -> str:
    """A gate's name, whose part after the slash has at most 63 letters."""
    domain, _, begin = prefix.partition("/")
    return f"{domain}/{(begin + task)[:_LONGEST_GATE].rstrip('-')}"


def _annotations(task: GpuTask) -> dict[str, str]:
    said: dict[str, str] = {}
    network, cards = task.spec.network, task.spec.cards
    if task.is_elastic:
        said[GANG_MIN] = str(task.least)
    if network is not None and network.required_level:
        said["accelet.dev/required-level"] = network.required_level
    if network is not None and network.exclusive_level:
        said["accelet.dev/exclusive-level"] = network.exclusive_level
    if network is not None and network.exclusive:
        said["accelet.dev/exclusive"] = "true"
    if cards is not None:
        wishes = {
            "gas-allocate-single-numa": "true" if cards.same_numa else "",
            "gas-allocate-xelink": "true" if cards.linked else "",
            "gas-allow": ",".join(cards.allow),
            "gas-deny": ",".join(cards.deny),
        }
        said |= {name: text for name, text in wishes.items() if text}
    return said


def _container(task: GpuTask, attempt: int, cluster_domain: str) -> dict[str, Any]:
    own = task.spec.container
    given = {one.name for one in own.env}
    met = [one for one in _rendezvous(task, attempt, cluster_domain) if one["name"] not in given]
    asked = [{"name": "ACCELET_SAVE_FILE", "value": ASKED_FILE}] if _is_asked(task) else []
    folder = [{"name": _ASKED_VOLUME, "mountPath": ASKED_FOLDER, "readOnly": True}] if asked else []
    shared = [{"name": _SHM_VOLUME, "mountPath": SHARED_MEMORY}] if own.shm_size is not None else []
    optional = {
        "command": list(own.command),
        "args": list(own.args),
        "workingDir": own.working_dir,
        "env": [*met, *asked, *(_variable(one) for one in own.env)],
        "envFrom": [_source(one) for one in own.env_from],
        "volumeMounts": [*(_mount(index, one) for index, one in enumerate(own.volumes)), *shared, *folder],
        "securityContext": _as_json(own.security_context),
    }
    body: dict[str, Any] = {"name": MAIN, "image": own.image}
    body |= {name: value for name, value in optional.items() if value}
    if task.restart == "InPlace":
        body |= restart_in_place(task.failure.fatal_exit_codes)
    amounts = _amounts(own, task.spec.cards)
    if amounts:
        body["resources"] = {"limits": amounts, "requests": amounts}
    return body


def restart_in_place(fatal: Sequence[int]) -> dict[str, Any]:
    """That a kubelet starts all containers of a pod again where this one fails: KEP 5532, from 1.36 on."""
    codes = {"operator": "NotIn", "values": [0, *sorted(fatal)]}
    rule = {"action": RESTART_ALL_CONTAINERS, "exitCodes": codes}
    return {"restartPolicy": "Never", RULES: [rule]}


def _amounts(own: TaskContainer, cards: TaskCards | None) -> dict[str, str]:
    asked: dict[str, str | int | None] = {**own.resources, "cpu": own.cpu, "memory": own.memory}
    if cards is not None:
        domain = _domain(cards)
        asked[cards.resource] = cards.cards
        asked[f"{domain}/tiles"] = cards.tiles
        asked[f"{domain}/millicores"] = cards.millicores
        asked[f"{domain}/memory.max"] = cards.memory
    return {name: str(amount) for name, amount in asked.items() if amount is not None}


def _rendezvous(
    task: GpuTask, attempt: int, cluster_domain: str = DEFAULT_CLUSTER_DOMAIN
) -> Sequence[dict[str, Any]]:
    """Where the ranks meet, and how many processes each starts, as torchrun and torch.distributed read it."""
    said = {**meeting_environment(task, attempt, cluster_domain), **process_environment(task)}
    path = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{RANK}']"}}
    own = ("RANK", "PET_NODE_RANK") if task.meets else ()
    ranked = [{"name": name, "valueFrom": path} for name in own]
    return [*({"name": name, "value": value} for name, value in said.items()), *ranked]


def _is_asked(task: GpuTask) -> bool:
    """Whether its program is given time to save before a move."""
    return task.spec.move is not None and task.spec.move.save_seconds > 0


def _asked_volume() -> dict[str, Any]:
    path = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{SAVE}']"}
    return {"name": _ASKED_VOLUME, "downwardAPI": {"items": [{"path": "save", "fieldRef": path}]}}


def _as_json(part: msgspec.Struct | None) -> Any:
    return msgspec.json.decode(msgspec.json.encode(part))


def _shm_volume(own: TaskContainer) -> dict[str, Any]:
    """Shared memory of the size that is asked for: a runtime gives 64 MiB, too few for data loaders."""
    return {"name": _SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": str(own.shm_size)}}


def _variable(one: TaskVariable) -> dict[str, Any]:
    if one.value_from is None:
        return {"name": one.name, "value": one.value}
    return {"name": one.name, "valueFrom": msgspec.to_builtins(one.value_from)}


def _source(one: TaskSource) -> dict[str, Any]:
    if one.config_map is not None:
        return {"configMapRef": {"name": one.config_map}}
    return {"secretRef": {"name": one.secret}}


def _volume(index: int, one: TaskVolume) -> dict[str, Any]:
    name = f"volume-{index}"
    if one.claim is not None:
        return {"name": name, "persistentVolumeClaim": {"claimName": one.claim}}
    if one.config_map is not None:
        return {"name": name, "configMap": {"name": one.config_map}}
    if one.secret is not None:
        return {"name": name, "secret": {"secretName": one.secret}}
    return {"name": name, "emptyDir": {"medium": "Memory"} if one.scratch == "Memory" else {}}


def _mount(index: int, one: TaskVolume) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": f"volume-{index}", "mountPath": one.mount_path}
    return mount | ({"readOnly": True} if one.read_only else {})


def _domain(cards: TaskCards) -> str:
    return cards.resource.partition("/")[0]
