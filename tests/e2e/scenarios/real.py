"""A real kubelet as a stage: pods come through the API server, and it is killed by its process id."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from accelet.fakekubelet.scenario import Outcome, UnsupportedStepError
from accelet.fakekubelet.scenario.format import Admit, Begin, OnContainer, OnPod, Pause, Step, Wait
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import WaitedInVainError, wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.scenarios.plugin import RecordingPlugin
from tests.e2e.scenarios.podmanifest import manifest, parse_seen
from tests.e2e.scenarios.stage import Seen

PATIENCE_S = 60.0
"""Node status and pods take their time on a busy machine; how long is not what is compared."""

STATUS_S = 2.5

NOT_YET = ("ContainerCreating", "PodInitializing", "CrashLoopBackOff")


class RealStage:
    """One node. `folder` is seen by the node under the same path; containers read there when to end."""

    def __init__(self, node: Node, workloads: Workloads, folder: Path) -> None:
        self.node = node
        self.workloads = workloads
        self.folder = folder
        self._specs: dict[str, Admit] = {}
        self._names: dict[str, str] = {}
        self._terminating: set[str] = set()
        self._plugins: Mapping[str, RecordingPlugin] = {}

    @property
    def root(self) -> Path:
        return self.node.path("/var/lib/kubelet")

    def meet(self, plugins: Mapping[str, RecordingPlugin]) -> None:
        self._plugins = plugins

    async def perform(self, step: Step) -> Outcome:
        method: Callable[[Any], Awaitable[Outcome]] | None = getattr(self, f"_{step.name}", None)
        if method is None:
            raise UnsupportedStepError(f"a real kubelet cannot be told to {step.name.replace('_', ' ')}")
        return await method(step.action)

    async def _wait(self, action: Wait) -> Outcome:
        names = ("healthy", "unhealthy", "capacity", "allocatable", "connected", "registrations")
        wanted = {name: getattr(action, name) for name in names if getattr(action, name) is not None}
        wanted = wanted or {"connected": True}
        text = ", ".join(f"{name} {value}" for name, value in wanted.items())
        try:
            await asyncio.to_thread(
                wait_until,
                f"{action.resource}: {text}",
                lambda: all(self._known(action.resource)[name] == value for name, value in wanted.items()),
                timeout_s=max(PATIENCE_S, action.within_s),
                evidence=lambda: f"it is {self._known(action.resource)}",
            )
        except WaitedInVainError as error:
            return Outcome(f"not {text}", resource=action.resource, problem=str(error).splitlines()[1])
        return Outcome(text, resource=action.resource)

    def _known(self, resource: str) -> dict[str, int | bool]:
        status = self.node.object().get("status", {})
        capacity = int(status.get("capacity", {}).get(resource, 0))
        allocatable = int(status.get("allocatable", {}).get(resource, 0))
        plugins = [each for each in self._plugins.values() if each.wanted.resource == resource]
        return {
            "healthy": allocatable,
            "unhealthy": capacity - allocatable,
            "capacity": capacity,
            "allocatable": allocatable,
            "connected": any(each.is_streaming for each in plugins),
            "registrations": sum(each.registrations for each in plugins),
        }

    # Pods.

    async def bind(self, action: Admit) -> None:
        self._specs[action.pod] = action
        made = await asyncio.to_thread(self.workloads.apply, manifest(action, self.node.name, self.folder))
        self._names[made["metadata"]["uid"]] = action.pod

    async def _admit(self, action: Admit) -> Outcome:
        await self.bind(action)
        outcome = await self.fate(action.pod, "")
        state, _, message = outcome.detail.partition(": ")
        if action.expect not in (state, "any") or (action.message or "") not in message:
            return Outcome(outcome.detail, problem=f"pod {action.pod} should be {action.expect}")
        return outcome

    async def fate(self, pod: str, expect: str) -> Outcome:
        """What has become of the pod, once it is what is expected; of whatever kind if nothing is."""

        def settled() -> str | None:
            state = _state(self.workloads.pod(pod))
            return state if state is not None and state.startswith(expect) else None

        text = await asyncio.to_thread(
            wait_until,
            f"{pod} is decided",
            settled,
            timeout_s=PATIENCE_S,
            evidence=lambda: self.workloads.describe_pod(pod),
        )
        return Outcome(text if text != "running" else f"running: {self._given(pod)}", pod=pod)

    def _given(self, pod: str) -> str:
        """How many devices each container has: of init containers only the checkpoint knows."""
        text = (self.root / "device-plugins" / "kubelet_internal_checkpoint").read_text()
        counts: dict[tuple[str, str], int] = {}
        for entry in json.loads(text)["Data"]["PodDeviceEntries"] or ():
            if self._names.get(entry["PodUID"]) == pod:
                ids = {each for group in entry["DeviceIDs"].values() for each in group}
                counts[entry["ContainerName"], entry["ResourceName"]] = len(ids)
        order = [each.name for each in self._specs[pod].as_pod().in_order()]
        parts = [
            f"{container} has {count} of {resource}"
            for (container, resource), count in sorted(
                counts.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
            )
        ]
        return ", ".join(parts) or "no devices"

    async def _remove(self, action: OnPod) -> Outcome:
        if action.pod in self._terminating:
            # The runtime waits out the grace period it was told first.
            for container in self._specs[action.pod].as_pod().containers:
                self._end(action.pod, container.name, 0)
        await asyncio.to_thread(self.workloads.delete_pod, action.pod)
        return Outcome("gone")

    async def _terminate(self, action: OnPod) -> Outcome:
        await asyncio.to_thread(
            self.workloads.client.send,
            "DELETE",
            f"/api/v1/namespaces/default/pods/{action.pod}",
            {"gracePeriodSeconds": 300},
        )
        self._terminating.add(action.pod)
        return Outcome("terminating")

    async def _finish(self, action: OnPod) -> Outcome:
        for container in self._specs[action.pod].as_pod().containers:
            self._end(action.pod, container.name, 0)
        await asyncio.to_thread(self.workloads.wait_for_phase, action.pod, "Succeeded")
        return Outcome("succeeded")

    async def _restart_container(self, action: OnContainer) -> Outcome:
        before = _container(self.workloads.pod(action.pod), action.container)["restartCount"]
        self._end(action.pod, action.container, 1)

        def settled() -> str | None:
            status = _container(self.workloads.pod(action.pod), action.container)
            if status["restartCount"] > before and "running" in status["state"]:
                return "running"
            return _waits(status)

        text = await asyncio.to_thread(
            wait_until,
            f"{action.pod} has restarted {action.container}",
            settled,
            timeout_s=PATIENCE_S,
            evidence=lambda: self.workloads.describe_pod(action.pod),
        )
        return Outcome(text.replace("waiting: ", "waiting "))

    def _end(self, pod: str, container: str, code: int) -> None:
        fresh = self.folder / f"new-{pod}-{container}"
        fresh.write_text(str(code))
        fresh.rename(self.folder / f"end-{pod}-{container}")

    def pod_name(self, uid: str) -> str:
        return self._names.get(uid, "an unknown pod")

    async def seen(self, pod: str) -> Mapping[str, Seen]:
        return await asyncio.to_thread(
            lambda: {
                each.name: parse_seen(self.workloads.log(pod, each.name))
                for each in self._specs[pod].as_pod().in_order()
            }
        )

    async def status(self) -> Mapping[str, tuple[int, int]]:
        # What is told about is older than what it tells by up to a tick, and by a busy machine.
        await asyncio.sleep(STATUS_S)
        status = (await asyncio.to_thread(self.node.object))["status"]
        return {
            resource: (int(amount), int(status["allocatable"].get(resource, 0)))
            for resource, amount in status["capacity"].items()
            if "/" in resource
        }

    # The kubelet.

    async def _stop_kubelet(self, _action: object) -> Outcome:
        await asyncio.to_thread(self.node.kubelet.process.kill)
        for plugin in self._plugins.values():
            if plugin.is_streaming:
                await asyncio.wait_for(plugin.ended.wait(), 10)
        return Outcome("stopped")

    async def _start_kubelet(self, _action: Begin) -> Outcome:
        await asyncio.to_thread(self.node.kubelet.start)
        await asyncio.to_thread(self.node.wait_until_ready)
        return Outcome("started")

    async def _restart_kubelet(self, action: Begin) -> Outcome:
        await self._stop_kubelet(action)
        await self._start_kubelet(action)
        return Outcome("restarted")

    async def _reboot(self, action: Begin) -> Outcome:
        """No container runs any more when the kubelet begins."""
        await self._stop_kubelet(action)
        ended = []
        for pod in filter(self._is_there, self._specs):
            status = self.workloads.pod(pod)["status"]
            for each in [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]:
                if "running" in each["state"]:
                    self._end(pod, each["name"], 1)
                    ended.append(self.folder / f"end-{pod}-{each['name']}")
        await asyncio.to_thread(
            wait_until, "all containers end", lambda: not any(map(Path.exists, ended)), timeout_s=20
        )
        await asyncio.sleep(1)
        await self._start_kubelet(action)
        return Outcome("rebooted")

    async def _pause(self, action: Pause) -> Outcome:
        await asyncio.sleep(action.seconds)
        return Outcome(f"{action.seconds:g} s")

    async def clean(self) -> None:
        """Removes what the script left."""
        for pod in filter(self._is_there, self._specs):
            await asyncio.to_thread(self.workloads.delete_pod, pod)
        for path in (self.root / "device-plugins").iterdir():
            if path.name not in ("kubelet.sock", "kubelet_internal_checkpoint"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _is_there(self, pod: str) -> bool:
        path = f"/api/v1/namespaces/default/pods/{pod}"
        return self.workloads.client.try_get(path) is not None


def _container(pod: Json, name: str) -> Json:
    status: Json = next(each for each in pod["status"]["containerStatuses"] if each["name"] == name)
    return status


def _state(pod: Json) -> str | None:
    """running, "rejected: ..." or "waiting: ..."; None when it is not decided."""
    status = pod["status"]
    if status.get("phase") == "Failed" and "reason" in status:
        return f"rejected: {status['reason']}: {status['message']}"
    containers = status.get("containerStatuses", [])
    for each in [*status.get("initContainerStatuses", []), *containers]:
        if (text := _waits(each)) is not None:
            return text
    all_run = bool(containers) and all("running" in each["state"] for each in containers)
    return "running" if status.get("phase") == "Running" and all_run else None


def _waits(container: Json) -> str | None:
    waiting = container["state"].get("waiting")
    if waiting is None or waiting.get("reason") in NOT_YET:
        return None
    return f"waiting: {waiting.get('message', waiting.get('reason'))}"
