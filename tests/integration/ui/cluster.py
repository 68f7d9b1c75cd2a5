"""A cluster at a fake API server with everything that the page shows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.nodecards import NodeCard
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.fakeapi import FakeApi
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import ApiResource
from accelet.scheduler.gangs.grouping import CARDS_GATE, GangKey
from accelet.scheduler.record import Placement, Record
from tests.fakes.manifests import raw_container, raw_node, raw_pod
from tests.unit.scheduler.card_values import card

EVENTS = "api/v1/events"
PODS, NODES, PLANS = "api/v1/pods", "api/v1/nodes", "api/v1/configmaps"
TASKS = f"apis/{GPU_TASKS.api_version}/gputasks"
SLICES = f"apis/{SLICE_REQUESTS.api_version}/slicerequests"
CARD, GPU = "gpu.intel.com/i915", "nvidia.com/gpu"
MARKUP = "<img src=x onerror=\"document.title='taken over'\"><script>document.title='taken over'</script>"


def add_node(
    api: FakeApi, name: str, where: str = "", *, cards: Sequence[NodeCard] = (), gpus: int = 0, **more: Any
) -> None:
    api.state.create(NODES, "", raw_node(name, where, cards=cards, gpus=gpus, **more))


def add_card_pod(
    api: FakeApi, name: str, on: str | None, tiles: Mapping[int, Sequence[int]], namespace: str = "ml"
) -> None:
    """A pod that has these tiles, by card; of a card without any it shares the whole. Gated if on no node."""
    asks = {CARD: str(len(tiles)), "gpu.intel.com/tiles": str(sum(map(len, tiles.values())))}
    pieces = tuple(unit(card(number).id, *some) for number, some in tiles.items())
    said = {ASSIGNMENT_ANNOTATION: render_own(Assignment({"main": {CARD: pieces}}))}
    one = raw_container(requests={"cpu": "1", **asks}, limits=asks)
    gates = () if on else (CARDS_GATE,)
    phase = "Running" if on else "Pending"
    body = raw_pod(
        name,
        namespace=namespace,
        on=on,
        phase=phase,
        gates=gates,
        annotations=said if on else {},
        containers=[one],
    )
    api.state.create(PODS, namespace, body)


def add_gpu_pod(
    api: FakeApi,
    name: str,
    on: str | None,
    gpus: int,
    *,
    job: str = "",
    gates: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> None:
    """A pod that asks for GPUs of another vendor's plugin, of a job."""
    one = raw_container(requests={GPU: str(gpus)}, limits={GPU: str(gpus)})
    labels = {**({"job-name": job} if job else {}), **(labels or {})}
    phase = "Running" if on else "Pending"
    api.state.create(
        PODS, "ml", raw_pod(name, on=on, phase=phase, gates=gates, labels=labels, containers=[one])
    )


def add_event(
    api: FakeApi,
    namespace: str,
    pod: str,
    reason: str,
    message: str,
    *,
    kind: str = "Normal",
    at: str = "2026-01-01T00:00:00Z",
) -> None:
    """An Event of a pod, as the kubelet writes it."""
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod}.{reason.lower()}"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": pod},
        "type": kind,
        "reason": reason,
        "message": message,
        "count": 3,
        "lastTimestamp": at,
    }
    api.state.create(EVENTS, namespace, body)


def add_plan(api: FakeApi, gang: GangKey, placements: Sequence[Placement]) -> None:
    body = Record(gang, tuple(placements), 0, 0).to_body()
    api.state.create(PLANS, gang.namespace, json.loads(json.dumps(body)))


def add_task(api: FakeApi, name: str, status: Mapping[str, Any], **spec: Any) -> None:
    _add(api, GPU_TASKS, name, {"container": {"image": "example/train"}, **spec}, status)


def add_slice(api: FakeApi, name: str, status: Mapping[str, Any]) -> None:
    spec = {
        "accelerator": "tpu-v5-lite-podslice",
        "topology": "4x4",
        "chipsPerPod": 4,
        "set": {"name": "train"},
    }
    _add(api, SLICE_REQUESTS, name, spec, status)


def _add(
    api: FakeApi, kind: ApiResource, name: str, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    path = f"apis/{kind.api_version}/{kind.plural}"
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    api.state.create(path, "ml", body)
    api.state.patch(path, ("ml", name), "merge-patch", {"status": dict(status)})


def fill_small(api: FakeApi) -> None:
    """Three nodes with cards and one with another vendor's GPUs, with something of everything."""
    for number in range(3):
        ill = [card(index, ill="it was reset three times within a minute") for index in (3,) if number == 1]
        cards = [*(card(index) for index in range(4 - len(ill))), *ill]
        labels = {"gpu.intel.com/gas-disable-card2": "true"} if number == 2 else {}
        add_node(api, f"gpu-{number}", f"b0/s{number // 2}/h{number}", cards=cards, labels=labels)
    add_node(api, "other-0", "b1/s2/h3", gpus=8)
    add_card_pod(api, "train-0", "gpu-0", {0: [0, 1], 1: [0, 1]})
    add_card_pod(api, "train-1", "gpu-1", {0: [0, 1], 1: [0, 1]})
    add_card_pod(api, "serve-7c9", "gpu-0", {2: [0]})
    add_card_pod(api, "notebook", "gpu-2", {0: []})
    add_gpu_pod(api, "llm-0", "other-0", 6, job="llm")
    add_card_pod(api, "wants-much", None, {number: [0, 1] for number in range(5)})
    for rank in range(4):
        add_gpu_pod(api, f"sweep-{rank}", None, 8, job="sweep", gates=["gke.io/topology-aware-auto-sweep"])
    add_card_pod(api, "soon-0", None, {0: [0]})
    uid = api.state.collection(PODS).objects["ml", "soon-0"]["metadata"]["uid"]
    add_plan(api, GangKey("ml", "soon-0", "pod"), [Placement("soon-0", uid, "gpu-2")])
    running = {"phase": "Running", "attempt": 1, "replicas": 2, "readyReplicas": 2, "where": "gpu-0, gpu-1"}
    add_task(api, "train", running, replicas=2, cards={"cards": 2, "tiles": 4})
    why = "needs room for 3 pods, the cluster has 1"
    add_task(api, "sweep", {"phase": "Waiting", "attempt": 2, "why": why}, replicas=3, cards={"cards": 2})
    add_slice(api, "train-0", {"phase": "Ready", "hosts": "4/4", "tier": "spot", "zone": "europe-west4-b"})
    add_slice(api, "train-1", {"phase": "Pending", "why": "spot had no room; trying on-demand"})


def fill_large(api: FakeApi, nodes: int = 1000, cards: int = 8) -> None:
    """Ten blocks of five sub-blocks each, and pods on three tiles of four."""
    for number in range(nodes):
        block, subblock = number * 10 // nodes, number * 50 // nodes
        ill = 5 if number % 97 == 0 else -1
        mine = [card(index, ill="it does not answer" if index == ill else None) for index in range(cards)]
        add_node(api, f"node-{number:04}", f"b{block}/s{subblock}/h{number}", cards=mine)
        if number % 10 < 7:
            for index in range(0, cards - 2, 2):
                add_card_pod(
                    api,
                    f"job-{number // 4}-{number % 4}-{index}",
                    f"node-{number:04}",
                    {index: [0, 1], index + 1: [0]},
                )
    for number in range(20):
        add_card_pod(api, f"large-{number}", None, {index: [0, 1] for index in range(cards + 1)})
