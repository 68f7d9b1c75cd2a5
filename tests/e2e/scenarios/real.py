"""A real kubelet as a stage: pods come through the API server, and it is killed by its process id."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from accelet.fakekubelet.scenario import Outcome, UnsupportedStepError
from accelet.fakekubelet.scenario.format import Admit, Begin, OnContainer, OnPod, Pause, Step, Wait
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import WaitedInVainError, wait_until
from tests.e2e.scenarios.looking import Seen
from tests.e2e.scenarios.plugin import RecordingPlugin
from tests.e2e.scenarios.podmanifest import manifest, parse_seen
from tests.e2e.scenarios.podstatus import container_status, state, waits
from tests.e2e.scenarios.realkubelet import PATIENCE_S, RealKubelet

PODS = "/api/v1/namespaces/default/pods"


class RealStage:
    """One node. `folder` is seen by the node under the same path; containers read there when to end."""

    def __init__(self, node: Node, cluster: ControlPlane, folder: Path) -> None:
        self.kubelet = RealKubelet(node, cluster)
        self.workloads = cluster.workloads
        self.folder = folder
        self._specs: dict[str, Admit] = {}
        self._names: dict[str, str] = {}
        self._terminating: set[str] = set()
        self._plugins: Mapping[str, RecordingPlugin] = {}

    @property
    def root(self) -> Path:
        return self.kubelet.root

    def without_haste(self) -> AbstractContextManager[None]:
        return nullcontext()

    def meet(self, plugins: Mapping[str, RecordingPlugin]) -> None:
        self._plugins = plugins

    async def perform(self, step: Step) -> Outcome:
        method: Callable[[Any], Awaitable[Outcome]] | None = getattr(self, f"_{step.name}", None)
        if method is None:
            raise UnsupportedStepError(f"a real kubelet cannot be told to {step.name.replace('_', ' ')}")
        return await method(step.action)

    async def _wait(self, action: Wait) -> Outcome:
        action = action if action.wanted else msgspec.structs.replace(action, connected=True)
        text = ", ".join(f"{name} {value}" for name, value in action.wanted.items())

        def holds() -> bool:
            return action.holds(self._known(action.resource))

        try:
            await asyncio.to_thread(
                wait_until,
                f"{action.resource}: {text}",
                holds,
                timeout_s=max(PATIENCE_S, action.within_s),
                evidence=lambda: f"it is {self._known(action.resource)}",
            )
        except WaitedInVainError as error:
            return Outcome(f"not {text}", resource=action.resource, problem=str(error).splitlines()[1])
        return Outcome(text, resource=action.resource)

    def _known(self, resource: str) -> dict[str, int | bool]:
        capacity, allocatable = self.kubelet.known(resource)
        plugins = [each for each in self._plugins.values() if each.wanted.resource == resource]
        return {
            "healthy": allocatable,
            "unhealthy": capacity - allocatable,
            "capacity": capacity,
            "allocatable": allocatable,
            "connected": any(each.answers.is_streaming for each in plugins),
            "registrations": sum(each.registrations for each in plugins),
        }

    # Pods.

    async def bind(self, action: Admit) -> None:
        self._specs[action.pod] = action
        body = manifest(action, self.kubelet.node.name, self.folder)
        made = json.loads(await asyncio.to_thread(self.workloads.client.send, "POST", PODS, body))
        self._names[made["metadata"]["uid"]] = action.pod

    async def _admit(self, action: Admit) -> Outcome:
        await self.bind(action)
        outcome = await self.fate(action.pod, "any")
        become, _, message = outcome.detail.partition(": ")
        if action.expect not in (become, "any") or (action.message or "") not in message:
            return Outcome(outcome.detail, problem=f"pod {action.pod} should be {action.expect}")
        return outcome

    async def fate(self, pod: str, expect: str) -> Outcome:
        """What has become of the pod, once it is what is expected."""

        def settled() -> str | None:
            now = state(self.workloads.pod(pod), self.kubelet.ended)
            return now if now is not None and expect in (now.partition(":")[0], "any") else None

        text = await asyncio.to_thread(
            wait_until,
            f"{pod} is decided",
            settled,
            timeout_s=PATIENCE_S,
            evidence=lambda: self.workloads.describe_pod(pod),
        )
        return Outcome(text if text != "running" else f"running: {self._given(pod)}", pod=pod)

    async def outlives(self, pod: str) -> bool:
        await asyncio.to_thread(
            wait_until,
            f"{pod} is decided, or the kubelet ends",
            lambda: not self.kubelet.is_running or state(self.workloads.pod(pod)),
            timeout_s=PATIENCE_S,
        )
        return self.kubelet.is_running

    def _given(self, pod: str) -> str:
        """How many devices each container has: of init containers only the checkpoint knows."""
        order = [each.name for each in self._specs[pod].as_pod().in_order()]
        given = [
            (order.index(container), resource, f"{container} has {count} of {resource}")
            for (uid, container, resource), count in self.kubelet.counts_held().items()
            if self._names.get(uid) == pod
        ]
        return ", ".join(text for _, _, text in sorted(given)) or "no devices"

    async def _remove(self, action: OnPod) -> Outcome:
        if action.pod in self._terminating:
            # The runtime waits out the grace period it was told first.
            self._end(action.pod, 0)
        await asyncio.to_thread(self.workloads.delete_pod, action.pod)
        return Outcome("gone")

    async def _terminate(self, action: OnPod) -> Outcome:
        await asyncio.to_thread(self._delete, action.pod, 300)
        self._terminating.add(action.pod)
        return Outcome("terminating")

    def _delete(self, pod: str, grace_s: int) -> None:
        self.workloads.client.send("DELETE", f"{PODS}/{pod}", {"gracePeriodSeconds": grace_s})

    async def _finish(self, action: OnPod) -> Outcome:
        self._end(action.pod, 0)
        await asyncio.to_thread(self.workloads.wait_for_phase, action.pod, "Succeeded")
        return Outcome("succeeded")

    async def _restart_container(self, action: OnContainer) -> Outcome:
        before = container_status(self.workloads.pod(action.pod), action.container)["restartCount"]
        self._end(action.pod, 1, action.container)

        def settled() -> str | None:
            status = container_status(self.workloads.pod(action.pod), action.container)
            if status["restartCount"] > before and "running" in status["state"]:
                return "running"
            return waits(status)

        text = await asyncio.to_thread(
            wait_until,
            f"{action.pod} has restarted {action.container}",
            settled,
            timeout_s=PATIENCE_S,
            evidence=lambda: self.workloads.describe_pod(action.pod),
        )
        return Outcome(text.replace("waiting: ", "waiting "))

    def _end(self, pod: str, code: int, container: str | None = None) -> None:
        """Tells containers to end with this exit code: one, or all that stay."""
        spec = self._specs[pod].as_pod()
        for each in spec.in_order():
            if container in (None, each.name) and not spec.is_plain_init(each.name):
                fresh = self.folder / f"new-{pod}-{each.name}"
                fresh.write_text(str(code))
                fresh.rename(self.folder / f"end-{pod}-{each.name}")

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
        return await asyncio.to_thread(self.kubelet.status)

    # The kubelet.

    async def _stop_kubelet(self, _action: object) -> Outcome:
        await asyncio.to_thread(self.kubelet.stop)
        return Outcome("stopped")

    async def _start_kubelet(self, action: Begin) -> Outcome:
        if not action.pods_after_s:
            await asyncio.to_thread(self.kubelet.start)
            return Outcome("started")
        before = {plugin: plugin.registrations for plugin in self._plugins.values()}
        with ExitStack() as stack:
            await asyncio.to_thread(stack.enter_context, self.kubelet.starting_without_pods())
            for plugin, registrations in before.items():
                await plugin.is_back(registrations)
            await asyncio.to_thread(stack.close)
        return Outcome("started")

    async def _restart_kubelet(self, action: Begin) -> Outcome:
        await self._stop_kubelet(action)
        await self._start_kubelet(action)
        return Outcome("restarted")

    async def _reboot(self, action: Begin) -> Outcome:
        """No container runs any more when the kubelet begins."""
        await self._stop_kubelet(action)
        await asyncio.to_thread(self.kubelet.end_containers)
        await self._start_kubelet(action)
        return Outcome("rebooted")

    async def _pause(self, action: Pause) -> Outcome:
        await asyncio.sleep(action.seconds)
        return Outcome(f"{action.seconds:g} s")

    async def clean(self) -> None:
        """Removes what the script left."""
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        if not self.kubelet.is_running:
            self.kubelet.start()
        for pod in self._left():
            self._end(pod, 0)
            self._delete(pod, 1)
        wait_until(
            "the pods of the scenario are gone",
            lambda: not self._left(),
            timeout_s=PATIENCE_S,
            evidence=lambda: "\n".join(map(self.workloads.describe_pod, self._left())),
        )

    def _left(self) -> list[str]:
        return [pod for pod in self._specs if self.workloads.client.try_get(f"{PODS}/{pod}") is not None]
