"""Machines for MachineDeployments: Nodes at a fake API server, as long as theirs is there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from accelet.fakeapi import Json
from accelet.fakeapi.state import State
from accelet.provisioner.providers.clusterapi.body import POOL_LABEL

DEPLOYMENTS: Final = "apis/cluster.x-k8s.io/v1beta2/machinedeployments"
_NODES: Final = "api/v1/nodes"


@contextmanager
def machine_deployments(state: State) -> Iterator[None]:
    """Keeps the Nodes up with the MachineDeployments; each offers four chips at once."""
    is_over = threading.Event()

    def follow() -> None:
        with state.changed:
            while not is_over.is_set():
                _keep_up(state)
                state.changed.wait(0.5)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        with state.changed:
            state.changed.notify_all()
        thread.join()


def _keep_up(state: State) -> None:
    wanted = {
        f"{one['metadata']['name']}-{index}": one
        for one in state.list(DEPLOYMENTS, {}, None)["items"]
        for index in range(one["spec"]["replicas"])
    }
    there = {node["metadata"]["name"] for node in state.list(_NODES, {}, None)["items"]}
    for name in wanted.keys() - there:
        state.create(_NODES, "", _node(name, wanted[name]))
    for name in there - wanted.keys():
        state.delete(_NODES, ("", name))


def _node(name: str, deployment: Json) -> Json:
    """Of a machine's labels Cluster API hands on this one; the taint is what its kubelet is told to set."""
    labels = {POOL_LABEL: deployment["spec"]["template"]["metadata"]["labels"][POOL_LABEL]}
    taint = {"key": "accelet.dev/slice-not-ready", "value": "true", "effect": "NoSchedule"}
    status = {
        "allocatable": {"google.com/tpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}, "status": status}
