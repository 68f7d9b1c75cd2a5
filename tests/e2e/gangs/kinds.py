"""Gangs of all kinds, drawn at random, as the objects that make them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from accelet.kube.selection import HOSTNAME
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GANG_MIN, GANG_SIZE, GATE_PREFIX
from accelet.scheduler.gangs.levels import PREFERRED_LEVEL, REQUIRED_LEVEL
from tests.e2e.gangs.fleet import GPUS, HOSTS, POOL, SUBBLOCKS
from tests.e2e.test_scheduler import GPU

GANG: Final = "example.com/gang"
"""The label by which the test knows the pods of a gang; nobody else looks at it."""

PLAIN, REFUSING, FULL, UNPLANNED = "plain", "refusing", "full", "unplanned"
"""Namespaces: without any rule; where a webhook refuses at random; with a quota of pods, of plans."""

_SHARES: Mapping[str, int] = {
    "simple": 12,
    "like": 6,
    "near": 4,
    "preferring": 3,
    "exclusive": 3,
    "elastic": 4,
    "ported": 3,
    "shy": 3,
    "unlike": 3,
    "wide": 1,
}
_NAMESPACES: Mapping[str, int] = {PLAIN: 12, REFUSING: 5, FULL: 2, UNPLANNED: 1}


@dataclass(frozen=True)
class Drawn:
    """A gang: `least` of its pods must be bound before any does anything, and then run for `runs_s`.

    `level` is the number of labels of a node's place that all pods share. It is deleted after `leaves_s`, if
    not None. `bodies` are a Job, or bare pods.
    """

    name: str
    kind: str
    namespace: str
    size: int
    least: int
    gpus: tuple[int, ...]
    bodies: Sequence[dict[str, Any]]
    runs_s: float
    level: int = 0
    is_apart: bool = False
    is_hot: bool = False
    leaves_s: float | None = None

    @property
    def is_job(self) -> bool:
        return self.bodies[0].get("kind") == "Job"


def draw(number: int, chance: Random) -> Drawn:
    kind = chance.choices(list(_SHARES), list(_SHARES.values()))[0]
    # Whoever is simple has no rule in its way, and so must not wait.
    spaces = [PLAIN] if kind in ("simple", "wide") else list(_NAMESPACES)
    namespace = chance.choices(spaces, [_NAMESPACES[space] for space in spaces])[0]
    name = f"{kind}-{number}"
    size, gpus = _size(kind, chance), _gpus(kind, chance)
    is_hot = kind in ("elastic", "wide") or (kind == "like" and chance.random() < 0.5)
    amounts = tuple(chance.randint(1, GPUS) for _ in range(size)) if kind == "unlike" else (gpus,) * size
    least = max(1, size // 2) if kind == "elastic" else size
    pod = _pod(name, kind, amounts[0], size, least, is_hot=is_hot)
    return Drawn(
        name,
        kind,
        namespace,
        size,
        least,
        amounts,
        _bare(name, pod, amounts) if kind == "unlike" else [_job(name, size, pod)],
        chance.uniform(5, 40),
        level={"near": 2, "wide": 1}.get(kind, 0),
        is_apart=kind in ("exclusive", "ported", "shy"),
        is_hot=is_hot,
        leaves_s=chance.uniform(0, 30) if kind != "wide" and chance.random() < 0.1 else None,
    )


def _size(kind: str, chance: Random) -> int:
    if kind == "wide":
        return SUBBLOCKS * HOSTS
    low, high = {"simple": (1, 4), "like": (4, 24), "elastic": (8, 16)}.get(kind, (3, 8))
    return chance.randint(low, high)


def _gpus(kind: str, chance: Random) -> int:
    return GPUS if kind in ("wide", "elastic") else chance.choice((1, 2, 4, 8))


def _pod(name: str, kind: str, gpus: int, size: int, least: int, *, is_hot: bool) -> dict[str, Any]:
    labels, annotations = {GANG: name}, dict[str, str]()
    container: dict[str, Any] = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        # Nobody has to end them: the API server forgets such a pod at once.
        "terminationGracePeriodSeconds": 0,
        "schedulingGates": [{"name": f"{GATE_PREFIX}{name}"}],
        "containers": [container],
    }
    match kind:
        case "near":
            annotations[REQUIRED_LEVEL] = "subblock"
        case "wide":
            annotations[REQUIRED_LEVEL] = "block"
        case "preferring":
            annotations[PREFERRED_LEVEL] = "subblock"
        case "exclusive":
            annotations[EXCLUSIVE] = "true"
        case "elastic":
            annotations[GANG_MIN] = str(least)
        case "ported":
            container["ports"] = [{"containerPort": 29500, "hostPort": 29500}]
        case "shy":
            term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case "unlike":
            labels["name"] = name
            annotations[GANG_SIZE] = str(size)
    if is_hot:
        spec["nodeSelector"] = {POOL: "hot"}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _job(name: str, size: int, pod: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "parallelism": size,
        "completions": size,
        "completionMode": "Indexed",
        "backoffLimit": 1000,
        "ttlSecondsAfterFinished": 10,
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
        },
        "template": pod,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _bare(name: str, pod: dict[str, Any], gpus: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"name": f"{name}-{rank}", **pod["metadata"]},
            "spec": pod["spec"]
            | {
                "containers": [{"name": "main", "image": "none", "resources": {"limits": {GPU: str(amount)}}}]
            },
        }
        for rank, amount in enumerate(gpus)
    ]
