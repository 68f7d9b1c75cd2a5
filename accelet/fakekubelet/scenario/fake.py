"""Plays scenarios on the fake kubelet."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from accelet.fakekubelet.devices.devicemanager import KubeletCrash
from accelet.fakekubelet.faults import Answering, Hang, Late, Refuse
from accelet.fakekubelet.kubelet import FakeKubelet
from accelet.fakekubelet.node import ContainerState, PodRecord
from accelet.fakekubelet.scenario.format import (
    Admit,
    Begin,
    Fault,
    Lift,
    Nothing,
    OnContainer,
    OnPod,
    OnResource,
    Pause,
    Step,
    Switch,
    Wait,
)
from accelet.fakekubelet.scenario.run import Outcome, UnsupportedStepError
from accelet.fakekubelet.trace import StillWaitingError


class FakeTarget:
    """A fake kubelet as the target of a scenario."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.kubelet = kubelet

    async def perform(self, step: Step) -> Outcome:
        method: Callable[[object], Awaitable[Outcome]] = getattr(self, step.name)
        try:
            return await method(step.action)
        except KubeletCrash as crash:
            await self.kubelet.start()
            return Outcome("the kubelet crashed", problem=str(crash))

    async def wait(self, action: Wait) -> Outcome:
        view = self.kubelet.resource(action.resource)

        def seen() -> dict[str, int | bool]:
            return {
                "healthy": len(view.healthy),
                "unhealthy": len(view.unhealthy),
                "capacity": view.capacity,
                "allocatable": view.allocatable,
                "connected": view.is_connected,
                "registrations": view.registrations,
            }

        wanted = action.wanted or {"connected": True}
        text = ", ".join(f"{name} {value}" for name, value in wanted.items())

        def holds() -> bool:
            if not action.wanted:
                return view.is_connected and action.resource in view.resource and bool(view.last_list)
            return action.holds(seen())

        try:
            await self.kubelet.trace.until(holds, text, timeout_s=action.within_s)
        except StillWaitingError:
            found = ", ".join(f"{name} {value}" for name, value in seen().items())
            problem = f"{action.resource} did not come to {text} in {action.within_s:g} s; it is {found}"
            return Outcome(f"not {text}", resource=action.resource, problem=problem)
        return Outcome(text, resource=action.resource)

    async def admit(self, action: Admit) -> Outcome:
        try:
            record = await self.kubelet.admit(action.as_pod(), timeout_s=action.within_s)
        except StillWaitingError as error:
            name = f"{action.namespace}/{action.pod}"
            return Outcome("undecided", pod=name, problem=str(error).splitlines()[0])
        except ValueError as error:
            raise UnsupportedStepError(str(error)) from None
        fate = fate_of(record)
        problem = None
        if action.expect not in (fate.state, "any"):
            problem = f"pod {record.pod} should be {action.expect} and is {fate}"
        elif action.message is not None and action.message not in fate.text:
            problem = f"pod {record.pod} should say {action.message!r} and says: {fate.text!r}"
        return Outcome(str(fate), pod=str(record.pod), problem=problem)

    async def remove(self, action: OnPod) -> Outcome:
        record = self._pod(action)
        await self.kubelet.remove(record)
        return Outcome("gone", pod=str(record.pod))

    async def terminate(self, action: OnPod) -> Outcome:
        record = self._pod(action)
        await self.kubelet.terminate(record)
        return Outcome("terminating", pod=str(record.pod))

    async def finish(self, action: OnPod) -> Outcome:
        record = self._pod(action)
        await self.kubelet.finish(record)
        return Outcome("succeeded", pod=str(record.pod))

    async def restart_container(self, action: OnContainer) -> Outcome:
        record = self._pod(action)
        made = await self.kubelet.restart_container(record, action.container)
        state = "running" if made else "waiting"
        error = record.containers[action.container].error or ""
        problem = None
        if action.expect not in (state, "any"):
            problem = f"container {action.container} of {record.pod} is {state}: {error}"
        return Outcome(
            f"{state} {error}".strip(), pod=str(record.pod), container=action.container, problem=problem
        )

    async def restart_kubelet(self, action: Begin) -> Outcome:
        await self.kubelet.restart(pods_after_s=action.pods_after_s)
        return Outcome("restarted")

    async def stop_kubelet(self, _action: Nothing) -> Outcome:
        await self.kubelet.stop()
        return Outcome("stopped")

    async def start_kubelet(self, action: Begin) -> Outcome:
        await self.kubelet.start(pods_after_s=action.pods_after_s)
        return Outcome("started")

    async def reboot(self, action: Begin) -> Outcome:
        await self.kubelet.reboot(pods_after_s=action.pods_after_s)
        return Outcome("rebooted")

    async def replace_kubelet(self, _action: Nothing) -> Outcome:
        await self.kubelet.replace()
        return Outcome("replaced")

    async def replace_folder(self, _action: Nothing) -> Outcome:
        await self.kubelet.replace_directory()
        return Outcome("replaced")

    async def drop_socket(self, _action: Nothing) -> Outcome:
        self.kubelet.drop_socket()
        return Outcome("dropped")

    async def cut_stream(self, action: OnResource) -> Outcome:
        await self.kubelet.cut_stream(action.resource)
        return Outcome("cut", resource=action.resource)

    async def fault(self, action: Fault) -> Outcome:
        fault: Refuse | Late | Hang = Hang()
        if action.refuse is not None:
            fault = Refuse(action.refuse)
        elif action.late_s is not None:
            fault = Late(action.late_s)
        self._service(action.service).inject(fault, times=action.times)
        return Outcome(f"{action.service}: {type(fault).__name__.lower()}")

    async def lift(self, action: Lift) -> Outcome:
        self._service(action.service).lift()
        return Outcome(f"{action.service}: answers")

    async def full_disk(self, action: Switch) -> Outcome:
        self.kubelet.faults.disk_full = action.enabled
        return Outcome("full" if action.enabled else "free")

    async def unknown_fields(self, action: Switch) -> Outcome:
        self.kubelet.faults.unknown_fields = action.enabled
        return Outcome("on" if action.enabled else "off")

    async def pause(self, action: Pause) -> Outcome:
        await self.kubelet.pause(action.seconds)
        return Outcome(f"{action.seconds:g} s")

    def _service(self, name: str) -> Answering:
        return self.kubelet.faults.register if name == "register" else self.kubelet.faults.pod_resources

    def _pod(self, action: OnPod) -> PodRecord:
        wanted = f"{action.namespace}/{action.pod}"
        for record in self.kubelet.pods:
            if str(record.pod) == wanted:
                return record
        raise UnsupportedStepError(f"no pod {wanted} is on the node")


@dataclass(frozen=True, slots=True)
class Fate:
    """What has become of a pod that was decided about, as the outcomes of steps tell it.

    `text` is why it was rejected or why a container of it waits; of a running one, how many devices each
    container has.
    """

    state: Literal["running", "rejected", "waiting"]
    text: str

    def __str__(self) -> str:
        return f"{self.state}: {self.text}"


def fate_of(record: PodRecord) -> Fate:
    """What has become of a pod on the fake kubelet."""
    if record.rejection is not None:
        return Fate("rejected", f"{record.rejection.reason}: {record.rejection.message}")
    waiting = [each for each in record.containers.values() if each.state is ContainerState.WAITING]
    if waiting:
        return Fate("waiting", next((each.error for each in waiting if each.error), ""))
    return Fate("running", _given(record))


def _given(record: PodRecord) -> str:
    """How many devices each container has, not which."""
    parts = [
        f"{name} has {len(ids)} of {resource}"
        for name, container in record.containers.items()
        for resource, ids in sorted(container.devices.items())
    ]
    return ", ".join(parts) or "no devices"
