"""The machines of a fake GKE: Nodes at an API server, as long as their pool runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from accelet.fakeapi.state import State
from tests.fakegke.state import Gke, Json

_NODES = "api/v1/nodes"


@contextmanager
def machines(gke: Gke, state: State) -> Iterator[None]:
    """Keeps the Nodes up with the pools; each offers four chips at once."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(0.02):
            pools = {pool["name"]: pool for pool in gke.list_truly()["nodePools"]}
            running = {name: pool for name, pool in pools.items() if pool["status"] == "RUNNING"}
            wanted = {
                f"{name}-{index}": pool
                for name, pool in running.items()
                for index in range(pool["initialNodeCount"])
            }
            there = {node["metadata"]["name"] for node in state.list(_NODES, {}, None)["items"]}
            for name in wanted.keys() - there:
                state.create(_NODES, "", _node(name, wanted[name]))
            for name in there - wanted.keys():
                if name.rpartition("-")[0] not in pools:
                    state.delete(_NODES, ("", name))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _node(name: str, pool: Json) -> Json:
    labels = {**pool["config"]["labels"], "cloud.google.com/gke-nodepool": pool["name"]}
    taints = [
        {"key": taint["key"], "value": taint["value"], "effect": "NoSchedule"}
        for taint in pool["config"]["taints"]
    ]
    status = {
        "allocatable": {"google.com/tpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}
