"""Run with Google's own client, in an environment of its own: drives a fake GKE with our node pools.

Reads `{"url": …, "bodies": […]}` from the standard input and prints what it saw as JSON.
"""

import json
import sys
import time
from typing import Any

from google.auth.credentials import AnonymousCredentials  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.cloud import container_v1  # type: ignore[import-not-found,import-untyped,unused-ignore]

_PARENT = "projects/p/locations/us-east5/clusters/c"


def main() -> None:
    asked = json.load(sys.stdin)
    anonymous: Any = AnonymousCredentials()  # type: ignore[no-untyped-call,unused-ignore]
    client = container_v1.ClusterManagerClient(
        credentials=anonymous, transport="rest", client_options={"api_endpoint": asked["url"]}
    )
    seen = [_drive(client, body["nodePool"]) for body in asked["bodies"]]
    json.dump(seen, sys.stdout)


def _drive(client: Any, body: dict[str, Any]) -> dict[str, Any]:
    """One pool's life. `from_json` refuses every field that GKE's interface does not have."""
    pool = container_v1.NodePool.from_json(json.dumps(body))
    name = f"{_PARENT}/nodePools/{pool.name}"
    operation = client.create_node_pool(parent=_PARENT, node_pool=pool)
    made = _wait(client, operation)
    listed = client.list_node_pools(parent=_PARENT).node_pools
    got = client.get_node_pool(name=name)
    deleted = _wait(client, client.delete_node_pool(name=name))
    return {
        "operation": operation.operation_type.name,
        "done": [made, deleted],
        "listed": [one.name for one in listed],
        "status": got.status.name,
        "labels": dict(got.config.labels),
        "nodes": got.initial_node_count,
        "taints": [[taint.key, taint.effect.name] for taint in got.config.taints],
        "topology": got.placement_policy.tpu_topology,
    }


def _wait(client: Any, operation: Any) -> str:
    name = f"projects/p/locations/us-east5/operations/{operation.name}"
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        found = client.get_operation(name=name)
        if found.status.name == "DONE":
            return str(found.status.name)
    raise TimeoutError(f"{operation.name} is not done within 30 s")


if __name__ == "__main__":
    main()
