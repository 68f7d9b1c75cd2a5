"""A world in which both controllers run: Jobs that the task controller makes get pods, and lose them."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from accelet.fakeapi import FakeApi, Json
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES
from tests.integration.scheduler.world import JOBS, PODS, World

TASKS_PATH = f"apis/{GPU_TASKS.api_version}/gputasks"
MOVES_PATH = f"apis/{MOVES.api_version}/moves"
_INDEX = "batch.kubernetes.io/job-completion-index"


class MovesWorld(World):
    """Of each rank one pod at a time, while its Job is not suspended; a pod on a node is ready at once."""

    def __init__(self, api: FakeApi) -> None:
        self._made = 0
        super().__init__(api)

    def add_task(self, name: str, gpus: int, ranks: int = 1, **spec: Any) -> None:
        body = {
            "container": {"image": "app", "cpu": 1},
            "replicas": ranks,
            "cards": {"resource": "nvidia.com/gpu", "cards": gpus},
            "rendezvous": "None",
            "move": {"policy": "WhenItHelps", "minRunSeconds": 0},
            **spec,
        }
        self.state.create(TASKS_PATH, "ml", {"metadata": {"name": name, "generation": 1}, "spec": body})

    def task(self, name: str) -> Json:
        return dict(self.state.collection(TASKS_PATH).objects["ml", name])

    def ask(self, task: str, **annotations: str | None) -> None:
        said = {
            "metadata": {
                "annotations": {f"accelet.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
            }
        }
        self.state.patch(TASKS_PATH, ("ml", task), "merge-patch", said)

    def moves(self) -> list[Json]:
        found: list[Json] = self.state.list(MOVES_PATH, {}, None)["items"]
        return found

    def phases(self) -> list[str]:
        return [(move.get("status") or {}).get("phase", "Proposed") for move in self.moves()]

    def runs_on(self, task: str) -> list[str]:
        """The nodes of the task's pods that run, by rank; empty while one has none."""
        pods = [pod for pod in self.pods() if pod["metadata"]["labels"].get("accelet.dev/task") == task]
        if any(not pod["spec"].get("nodeName") for pod in pods):
            return []
        pods.sort(key=lambda pod: int(pod["metadata"]["annotations"][_INDEX]))
        return [pod["spec"]["nodeName"] for pod in pods]

    def _make_pods(self) -> None:
        super()._make_pods()
        for (namespace, name), job in list(self.state.collection(JOBS).objects.items()):
            if "template" not in job["spec"]:
                continue
            own = {
                key: pod
                for key, pod in self.state.collection(PODS).objects.items()
                if pod["metadata"]["labels"].get("job-name") == name
            }
            if job["spec"].get("suspend"):
                for key in own:
                    self.state.delete(PODS, key)
                continue
            ranks = {int(pod["metadata"]["annotations"][_INDEX]) for pod in own.values()}
            assert len(ranks) == len(own), "a rank lives twice"
            for rank in set(range(job["spec"]["parallelism"])) - ranks:
                self._make_pod(namespace, job, rank)

    def _make_pod(self, namespace: str, job: Json, rank: int) -> None:
        self._made += 1
        template, name = deepcopy(job["spec"]["template"]), job["metadata"]["name"]
        metadata = template["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}
        labels = {
            **metadata["labels"],
            "job-name": name,
            "batch.kubernetes.io/job-name": name,
            _INDEX: str(rank),
        }
        metadata |= {
            "name": f"{name}-{rank}-{self._made}",
            "namespace": namespace,
            "labels": labels,
            "annotations": {**(metadata.get("annotations") or {}), _INDEX: str(rank)},
            "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", **template, "status": {"phase": "Pending"}}
        self.state.create(PODS, namespace, body)

    def _bind_pods(self) -> None:
        super()._bind_pods()
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for key, pod in list(self.state.collection(PODS).objects.items()):
            if pod["spec"].get("nodeName") and not pod["status"].get("conditions"):
                self.state.patch(PODS, key, "merge-patch", ready)


@contextmanager
def open_moves_world(api: FakeApi) -> Iterator[MovesWorld]:
    world = MovesWorld(api)
    try:
        yield world
    finally:
        world.close()
