"""Pods that keep coming while something else happens."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.e2e.agent import device_pod
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads

EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the pods that came, each in its final state."""

    running: Sequence[Json]
    refused: Sequence[Json]


class Arrivals:
    """Each pod asks for one device of a resource; nothing creates it again when it is refused."""

    def __init__(self, workloads: Workloads, resource: str, prefix: str) -> None:
        self._workloads = workloads
        self._resource = resource
        self._prefix = prefix
        self._names: list[str] = []
        self._next_at = time.monotonic()

    def come(self) -> None:
        """Makes the next pod when it is time for it."""
        if time.monotonic() >= self._next_at:
            name = f"{self._prefix}-{len(self._names)}"
            self._workloads.apply(device_pod(name, {self._resource: 1}, script="sleep 3600"))
            self._names.append(name)
            self._next_at = time.monotonic() + EVERY_S

    def fates(self) -> Fates:
        """Waits until every pod that came runs or was refused."""
        pods = [self._fate(name) for name in self._names]
        return Fates(
            running=[pod for pod in pods if pod["status"]["phase"] == "Running"],
            refused=[pod for pod in pods if pod["status"]["phase"] == "Failed"],
        )

    def leave(self) -> None:
        for name in self._names:
            self._workloads.delete_pod(name)

    def _fate(self, name: str) -> Json:
        def settled() -> Json | None:
            pod = self._workloads.pod(name)
            return pod if pod["status"].get("phase") in ("Running", "Failed") else None

        return wait_until(
            f"{name} runs or is refused",
            settled,
            timeout_s=90,
            evidence=lambda: self._workloads.describe_pod(name),
        )
