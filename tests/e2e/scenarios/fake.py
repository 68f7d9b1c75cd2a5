"""The fake kubelet as a stage."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from accelet.fakekubelet import FakeKubelet, KubeletCrash
from accelet.fakekubelet.node import ContainerState, PodRecord, Rejection
from accelet.fakekubelet.pods import Pod
from accelet.fakekubelet.scenario import FakeTarget, Outcome, fate_of
from accelet.fakekubelet.scenario.format import Admit, Wait
from tests.e2e.scenarios.looking import Seen
from tests.e2e.scenarios.plugin import RecordingPlugin
from tests.fakes.clocks import QuickClock


def lack_of_cpu(pod: Pod) -> Rejection | None:
    """The check that comes after devices were given: what no node of these tests has."""
    asked = sum(container.limits.get("cpu", 0) for container in pod.containers)
    if asked < 100:
        return None
    return Rejection(
        "OutOfcpu",
        f"Pod was rejected: Node didn't have enough resource: cpu, requested: {asked}, used: 0, capacity: 0",
    )


TICK_S = 11.0
"""After so long the fake kubelet has told the node's status anew."""


class FakeStage(FakeTarget):
    """Besides the steps of the file format: what can be read from a fake kubelet."""

    def __init__(self, kubelet: FakeKubelet, clock: QuickClock) -> None:
        super().__init__(kubelet)
        self._clock = clock
        self._names: dict[str, str] = {}

    @property
    def root(self) -> Path:
        return self.kubelet.plugins_dir.parent

    def meet(self, plugins: Mapping[str, RecordingPlugin]) -> None:
        """It needs no help."""

    def without_haste(self) -> AbstractContextManager[None]:
        return self._clock.held()

    async def wait(self, action: Wait) -> Outcome:
        """Also until the API server has been told, which is where it is looked for on a real node."""
        outcome = await super().wait(action)
        view = self.kubelet.resource(action.resource)
        await self.kubelet.trace.until(
            lambda: self.kubelet.node_status.get(action.resource) == (view.capacity, view.allocatable),
            f"the node's status to tell of {action.resource}",
        )
        return outcome

    async def bind(self, action: Admit) -> None:
        self.kubelet.bind(action.as_pod())

    async def fate(self, pod: str, expect: str) -> Outcome:
        record = self._record(pod)

        def come() -> bool:
            return (
                record.admitted is not None
                and (record.tried or not record.admitted)
                and expect in (fate_of(record).state, "any")
            )

        await self.kubelet.trace.until(come, f"{pod} to be {expect}", timeout_s=30)
        return Outcome(str(fate_of(record)), pod=pod)

    async def outlives(self, pod: str) -> bool:
        record = self._record(pod)
        try:
            await self.kubelet.decided(record)
        except KubeletCrash:
            return False
        return True

    def pod_name(self, uid: str) -> str:
        self._names |= {record.pod.uid: record.pod.name for record in self.kubelet.pods}
        return self._names.get(uid, "an unknown pod")

    async def admit(self, action: Admit) -> Outcome:
        outcome = await super().admit(action)
        self.pod_name("")
        return outcome

    async def seen(self, pod: str) -> Mapping[str, Seen]:
        return {
            name: Seen(
                {key: frozenset(value.split(",")) for key, value in container.options.envs.items()},
                frozenset(device.container_path.rpartition("/")[2] for device in container.options.devices),
            )
            for name, container in self._record(pod).containers.items()
            if container.state is not ContainerState.WAITING
        }

    async def status(self) -> Mapping[str, tuple[int, int]]:
        await self.kubelet.pause(TICK_S)
        return self.kubelet.node_status

    def _record(self, pod: str) -> PodRecord:
        return next(record for record in self.kubelet.pods if record.pod.name == pod)
