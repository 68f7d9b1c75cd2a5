"""Every allocation that the pods of a namespace were given, followed without a gap."""

import json
from dataclasses import dataclass, field

from tests.e2e.cluster.https_client import Client, Json
from tests.e2e.dra.site import CLAIMS

LOOK_S = 1
NAME_IN_POD = "resource.kubernetes.io/pod-claim-name"
EXTENDED = ""
"""Stands for the claim of a pod's extended resources, which has no name in the pod."""


@dataclass
class ClaimHistory:
    """What a list and watches tell, each from where the one before it ended.

    Lists alone would miss allocations, which end with the pod. A pod's status names other claims in the end:
    of several that go when a pod has ended, Kubernetes makes some once more, never to be allocated.
    """

    client: Client
    allocations: dict[tuple[str, str], list[list[Json]]] = field(default_factory=dict)
    """The results of each allocation, in order, by the pod's UID and the claim's name in it."""

    _version: str = ""

    def follow(self) -> None:
        """Takes up all changes until a second from now."""
        if not self._version:
            listed = json.loads(self.client.send("GET", CLAIMS))
            self._version = listed["metadata"]["resourceVersion"]
            for claim in listed["items"]:
                self._take(claim)
            return
        path = f"{CLAIMS}?watch=1&resourceVersion={self._version}&timeoutSeconds={LOOK_S}"
        for line in self.client.send("GET", path).splitlines():
            change = json.loads(line)
            assert change["type"] in ("ADDED", "MODIFIED", "DELETED"), f"changes were missed: {change}"
            self._version = change["object"]["metadata"]["resourceVersion"]
            self._take(change["object"])

    def last(self, pod_uid: str, claim: str) -> list[Json]:
        """What a claim of a pod was given last; nothing where it never was."""
        return self.allocations.get((pod_uid, claim), [[]])[-1]

    def _take(self, claim: Json) -> None:
        allocation = claim.get("status", {}).get("allocation")
        if allocation is None:
            return
        metadata = claim["metadata"]
        name = metadata.get("annotations", {}).get(NAME_IN_POD, EXTENDED)
        known = self.allocations.setdefault((metadata["ownerReferences"][0]["uid"], name), [])
        if not known or known[-1] != allocation["devices"]["results"]:
            known.append(allocation["devices"]["results"])
