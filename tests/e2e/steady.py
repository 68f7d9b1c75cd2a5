"""Pods that must not notice what happens around them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.e2e.agent import device_pod
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.workloads import Workloads


@dataclass(frozen=True, slots=True)
class SteadyPods:
    """Pods with devices, and what they were like when they had started."""

    workloads: Workloads
    started: Mapping[str, Json]

    def assert_unharmed(self) -> None:
        """The same containers run as then; what the kubelet says of their devices may have changed."""
        for name, pod in self.started.items():
            now = self.workloads.pod(name)
            assert life(now) == life(pod)
            assert all(status["ready"] for status in now["status"]["containerStatuses"])


@contextmanager
def steady_pods(
    workloads: Workloads, names: Sequence[str], resources: Mapping[str, int]
) -> Iterator[SteadyPods]:
    """Makes the pods, and deletes them at the end, also after a failure: others want their devices."""
    for name in names:
        workloads.apply(device_pod(name, resources, script="sleep 3600"))
    try:
        yield SteadyPods(workloads, {name: workloads.wait_for_phase(name, "Running") for name in names})
    finally:
        for name in names:
            workloads.delete_pod(name)


def life(pod: Json) -> list[object]:
    """Everything that would differ had a container of the pod ended or started."""
    containers = [
        [status[key] for key in ("containerID", "restartCount", "state")]
        for status in pod["status"]["containerStatuses"]
    ]
    return [pod["metadata"]["uid"], pod["status"]["phase"], containers]
