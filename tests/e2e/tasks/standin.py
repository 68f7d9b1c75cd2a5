"""What plays the kubelets of simulated nodes: pods that are bound run, until they are told to end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from accelet.gputask.objects.names import SAVE, SAVED
from accelet.kube.apiresources import PODS
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, InvalidError, NotFoundError
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import RefusedError

_LOOK_S = 0.2
_TOLD_TO_END = 143


class StandInKubelets:
    """The kubelets of all nodes, for the pods of one namespace.

    A pod that is deleted ends as by SIGTERM and goes, in this order, as with a kubelet. A program that is
    asked to save says that it has; `saved` are the pods, by UID, of those that did, and for what.
    """

    def __init__(self, cluster: ControlPlane, client: Client, namespace: str) -> None:
        self._cluster, self._client, self._namespace = cluster, client, namespace
        self.saved: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        work = asyncio.create_task(self._run())
        try:
            yield
            assert not work.done(), work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def pods(self, task: str) -> list[dict[str, Any]]:
        """Those of a task."""
        page = await self._client.list_page(
            PODS, self._namespace, {"labelSelector": f"accelet.dev/task={task}"}
        )
        return [json.loads(bytes(item)) for item in page.items]

    async def end(self, task: str, exit_code: int, ranks: frozenset[int] | None = None) -> None:
        """The programs of a task's ranks, all unless said, come to their own end."""
        for pod in await self.pods(task):
            rank = int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
            if (ranks is None or rank in ranks) and pod["status"]["phase"] == "Running":
                await self._end(pod, exit_code)

    async def _run(self) -> None:
        while True:
            page = await self._client.list_page(PODS, self._namespace)
            for pod in (json.loads(bytes(item)) for item in page.items):
                if pod["spec"].get("nodeName"):
                    await self._attend(pod)
            await asyncio.sleep(_LOOK_S)

    async def _attend(self, pod: dict[str, Any]) -> None:
        is_live = pod["status"].get("phase") in ("Pending", "Running")
        if "deletionTimestamp" in pod["metadata"]:
            if is_live:
                await self._end(pod, _TOLD_TO_END)
            path = PODS.path(self._namespace, pod["metadata"]["name"])
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            with suppress(RefusedError):  # it is gone, or another by now: the next look tells
                await asyncio.to_thread(self._cluster.client.send, "DELETE", path, options)
        elif pod["status"].get("phase") == "Pending":
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
            await self._say(pod, {"phase": "Running", "startTime": now, "conditions": ready})
        elif is_live:
            await self._save(pod)

    async def _save(self, pod: dict[str, Any]) -> None:
        """Its program looks whether it is to save, and for which Move."""
        metadata = pod["metadata"]
        asked = metadata.get("annotations", {}).get(SAVE, "").split()
        if asked and self.saved.get(metadata["uid"]) != asked[0]:
            said = {"metadata": {"uid": metadata["uid"], "annotations": {SAVED: asked[0]}}}
            with suppress(NotFoundError, ConflictError):
                await self._client.patch(PODS, self._namespace, metadata["name"], said, "merge")
                self.saved[metadata["uid"]] = asked[0]

    async def _end(self, pod: dict[str, Any], exit_code: int) -> None:
        container = {
            "name": "main",
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": False,
            "state": {"terminated": {"exitCode": exit_code}},
        }
        unready = [{"type": kind, "status": "False"} for kind in ("Ready", "ContainersReady")]
        phase = "Failed" if exit_code else "Succeeded"
        await self._say(pod, {"phase": phase, "conditions": unready, "containerStatuses": [container]})

    async def _say(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        name = pod["metadata"]["name"]
        with suppress(NotFoundError, ConflictError, InvalidError):
            await self._client.patch(PODS, self._namespace, name, body, "strategic", subresource="status")
