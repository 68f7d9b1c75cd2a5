"""The machines of a fake GKE: Nodes at an API server, as long as their pool runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from accelet.fakeapi.state import State
from tests.fakegke.autoscaler import fill_pools, labels_of
from tests.fakegke.state import Gke, Json, is_flex

_NODES, _PODS = "api/v1/nodes", "api/v1/pods"


@contextmanager
def machines(gke: Gke, state: State) -> Iterator[None]:
    """Keeps the Nodes up with the pools; each offers four chips at once."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(0.02):
            fill_pools(gke, state.list(_PODS, {}, None)["items"])
            pools = {pool["name"]: pool for pool in gke.list_truly()["nodePools"]}
            running = {name: pool for name, pool in pools.items() if pool["status"] == "RUNNING"}
            wanted = {
                f"{name}-{index}": pool for name, pool in running.items() for index in range(_size(gke, pool))
            }
            there = {node["metadata"]["name"] for node in state.list(_NODES, {}, None)["items"]}
            for name in wanted.keys() - there:
                state.create(_NODES, "", _node(name, wanted[name]))
            for name in there - wanted.keys():
                pool = pools.get(name.rpartition("-")[0])
                if pool is None or is_flex(pool):
                    state.delete(_NODES, ("", name))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _size(gke: Gke, pool: Json) -> int:
    if not is_flex(pool):
        return int(pool["initialNodeCount"])
    return int(pool["autoscaling"]["totalMaxNodeCount"]) if pool["name"] in gke.filled else 0


def _node(name: str, pool: Json) -> Json:
    labels = labels_of(pool)
    taints = [
        {"key": taint["key"], "value": taint["value"], "effect": "NoSchedule"}
        for taint in pool["config"]["taints"]
    ]
    status = {
        "allocatable": {"google.com/tpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}
