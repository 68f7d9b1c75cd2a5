"""Node objects that no kubelet stands behind: they publish cards, are well, and run nothing."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from accelet.assignments.nodecards import (
    NODE_CARDS_ANNOTATION,
    NodeCard,
    extended_capacity,
    render_node_cards,
)
from tests.e2e.cluster.https_client import Client, RefusedError

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
BEAT_S = 10.0


@contextmanager
def card_nodes(client: Client, cards: Mapping[str, Sequence[NodeCard]]) -> Iterator[None]:
    """Has these nodes for a while, and says of each that it is alive."""
    for name, some in cards.items():
        _make(client, name, some)
    is_over = threading.Event()
    beating = threading.Thread(target=_beat, args=(client, list(cards), is_over))
    beating.start()
    try:
        yield
    finally:
        is_over.set()
        beating.join()
        for name in cards:
            client.send("DELETE", f"{NODES}/{name}")


def _make(client: Client, name: str, cards: Sequence[NodeCard]) -> None:
    said = {NODE_CARDS_ANNOTATION: render_node_cards(cards)}
    client.send("POST", NODES, {"metadata": {"name": name, "annotations": said}})
    offered: dict[str, int] = dict(extended_capacity(cards))
    for card in cards:
        offered[card.resource] = offered.get(card.resource, 0) + card.shares
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "50", **{key: str(n) for key, n in offered.items()}}
    ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastHeartbeatTime": _now("%S")}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    client.send("PATCH", f"{NODES}/{name}/status", {"status": status})
    # The node controller takes this away by itself, but only when it looks next.
    client.send("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}})


def _beat(client: Client, names: Sequence[str], is_over: threading.Event) -> None:
    while True:
        for name in names:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now("%S.%f")}
            try:
                client.send("PATCH", f"{LEASES}/{name}", {"spec": spec})
            except RefusedError:
                client.send("POST", LEASES, {"metadata": {"name": name}, "spec": spec})
        if is_over.wait(BEAT_S):
            return


def _now(seconds: str) -> str:
    return datetime.now(UTC).strftime(f"%Y-%m-%dT%H:%M:{seconds}Z")
