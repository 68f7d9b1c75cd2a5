"""Pods with random assignments, of four kinds, and what their containers say of themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from accelet.fakekubelet import Container, a_container
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.integration.identity.storm import Assigned, amounts, assign, draw_init, render

LABEL = "assignments"
VIEW = "echo view $(ls /dev/dri 2>/dev/null | tr '\\n' ' ') mask=$ZE_AFFINITY_MASK"
STAY = "trap 'exit 0' TERM; sleep 3600 & wait"


@dataclass(frozen=True)
class AssignedPod:
    """A pod as it is applied, and what its containers are assigned."""

    manifest: Json
    assigned: Assigned


Shape = Callable[[Random], tuple[list[Container], list[Container], float]]
"""Init containers, containers, and how probably a container has tiles."""


def plain(random: Random) -> tuple[list[Container], list[Container], float]:
    return [], [a_container("main", amounts(random.choice([1, 2])))], 1.0


def some_with_tiles(random: Random) -> tuple[list[Container], list[Container], float]:
    sizes = [random.choice([0, 1, 1, 2]) for _ in range(random.choice([2, 3]))]
    sizes[0] = sizes[0] or 1
    random.shuffle(sizes)
    return [], [a_container(f"main{i}", amounts(size)) for i, size in enumerate(sizes)], 0.5


def gpu_sidecar(random: Random) -> tuple[list[Container], list[Container], float]:
    sidecar = a_container("side", amounts(1), restart_policy="Always")
    sizes = [random.choice([1, 2]) for _ in range(random.choice([1, 2]))]
    return [sidecar], [a_container(f"main{i}", amounts(size)) for i, size in enumerate(sizes)], 0.8


def everything(random: Random) -> tuple[list[Container], list[Container], float]:
    init = [draw_init(random, i) for i in range(random.choice([1, 2]))]
    sizes = [random.choice([1, 2]), *(random.choice([0, 1, 2]) for _ in range(random.choice([1, 2])))]
    random.shuffle(sizes)
    return init, [a_container(f"main{i}", amounts(size)) for i, size in enumerate(sizes)], 0.6


KINDS: Mapping[str, Shape] = {
    "plain": plain,
    "some-with-tiles": some_with_tiles,
    "gpu-sidecar": gpu_sidecar,
    "everything": everything,
}


def draw_pod(kind: str, number: int, random: Random) -> AssignedPod:
    init, main, with_tiles = KINDS[kind](random)
    assigned = assign(random, main, with_tiles=with_tiles)
    # The order of decisions is not that of admission, as with a scheduler that works on several pods.
    stamp = {"gas-ts": str(1_700_000_000_000_000_000 + random.randrange(10**9))}
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{kind}-{number}",
            "labels": {LABEL: kind},
            "annotations": {**render(main, assigned), **stamp},
        },
        "spec": {
            "restartPolicy": "Never",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "initContainers": [_container(one) for one in init],
            "containers": [_container(one) for one in main],
        },
    }
    return AssignedPod(manifest, assigned)


def _container(container: Container) -> Json:
    is_sidecar = container.restart_policy is not None
    made: dict[str, Any] = {
        "name": container.name,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{VIEW}; {STAY}" if is_sidecar else VIEW],
        "resources": {"limits": {name: str(count) for name, count in container.limits.items()}},
    }
    return {**made, "restartPolicy": "Always"} if is_sidecar else made


def read_view(log: str) -> tuple[list[str], str | None] | None:
    """The nodes and the mask that a container printed of itself, None if it printed nothing."""
    for line in log.splitlines():
        words = line.split()[3:]  # after time, stream, and whether the line is whole
        if words[:1] == ["view"]:
            mask = words[-1].removeprefix("mask=")
            return [f"/dev/dri/{name}" for name in words[1:-1]], mask or None
    return None
