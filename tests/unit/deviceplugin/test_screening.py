"""A kubelet that never says that it knows a resource is asked less and less often."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from accelet.accelerators.simulated import SimulatedSettings
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import PodUid
from accelet.kubelet.checkpoint import Checkpoint, CheckpointEntry
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.node.kubeletrecords import KubeletRecords
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from deviceplugin.screening import Screener
from resourcemanager.holdings.ledger import ALLOCATION_ANNOTATION
from resourcemanager.manager import ResourceManager, ResourceRules
from resourcemanager.matching.admissions import Admissions
from tests.fakes.clocks import FakeClock


class SilentRecords(KubeletRecords):
    """Those of a kubelet that knows no resource; counts how often it was looked."""

    looks = 0

    async def knows(self, resource: str) -> bool:
        self.looks += 1
        return False


class LateRecords(KubeletRecords):
    """Those of a kubelet that has taken over its checkpoint, and writes it a little later."""

    looks = 0

    async def knows(self, resource: str) -> bool:
        self.looks += 1
        return self.looks > 3

    async def checkpoint(self) -> Checkpoint:
        given = CheckpointEntry(
            PodUid("old"), "main", "r/x", frozenset({"d0"}), {ALLOCATION_ANNOTATION: "token"}
        )
        return Checkpoint((given,), {"r/x": frozenset({"d0"})})


class NoPods:
    """A `PodView` of a node without pods."""

    is_synced = can_read = knows_former = True
    as_of = watched_to = "5"

    def pods(self) -> Mapping[PodUid, Pod]:
        return {}

    def deleted(self) -> Mapping[PodUid, Pod]:
        return {}

    def heard(self) -> frozenset[PodUid]:
        return frozenset()

    def unwatched(self) -> frozenset[PodUid]:
        return frozenset()

    def vanished(self) -> frozenset[PodUid]:
        return frozenset()

    def deletions(self) -> Mapping[PodUid, int]:
        return {}

    def deleted_before(self) -> Mapping[PodUid, int]:
        return {}

    @property
    def can_follow(self) -> bool:
        return True

    async def follow(self, pod: Pod, within_s: float) -> bool:
        return True

    async def follow_end(self, uid: PodUid, within_s: float) -> bool:
        return True

    async def synced(self, within_s: float) -> bool:
        return True

    async def read_pod(self, name: ObjectKey) -> Pod | None:
        return None

    async def read_pods(self) -> Mapping[PodUid, Pod]:
        return {}

    def report(self, pod: Pod, reason: str, note: str) -> None:
        raise AssertionError("there is no pod")


class LaggingPods(NoPods):
    """A `PodView` whose watch is behind until `is_behind` is False; then it has shown a deletion as well."""

    new, lost = (
        Pod("ns", "new", uid="new"),
        Pod("ns", "lost", uid="lost", containers=(Container("main", limits={"r/x": 1}),)),
    )

    def __init__(self) -> None:
        self.is_behind = True
        self.followed = asyncio.Event()

    def unwatched(self) -> frozenset[PodUid]:
        return frozenset({PodUid("new")} if self.is_behind else ())

    def deleted(self) -> Mapping[PodUid, Pod]:
        return {} if self.is_behind else {PodUid("lost"): self.lost}

    async def follow(self, pod: Pod, within_s: float) -> bool:
        assert pod is self.new
        self.followed.set()
        return not self.is_behind

    async def read_pods(self) -> Mapping[PodUid, Pod]:
        return {PodUid("new"): self.new}


@asynccontextmanager
async def screening(
    folder: Path,
    pods: NoPods,
    make_records: type[KubeletRecords] = SilentRecords,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[tuple[Screener, KubeletRecords]]:
    """One that runs, of a kubelet that has started."""
    paths = KubeletPaths(folder)
    paths.device_plugins.mkdir()
    records = make_records(paths)
    backend = msgspec.convert({"cards": []}, SimulatedSettings).backend()
    async with PodResources(paths.pod_resources_socket) as pod_resources:
        manager = ResourceManager(ResourceRules("r/x"), backend)
        screener = Screener(manager, records, pods, pod_resources, clock)
        await screener.begin(Admissions(), is_new_kubelet=True)
        running = asyncio.create_task(screener.run())
        try:
            yield screener, records
        finally:
            running.cancel()


class OvertakenPods(NoPods):
    """A `PodView` whose watch shows after the list a pod that had come and gone before it."""

    as_of, watched_to = "5", "2"
    gone = Pod("ns", "gone", uid="gone", resource_version="4", containers=LaggingPods.lost.containers)

    def deleted(self) -> Mapping[PodUid, Pod]:
        return {} if self.watched_to == "2" else {PodUid("gone"): self.gone}


async def test_pod_that_had_come_and_gone_before_the_list_counts_once_the_watch_shows_it(
    tmp_path: Path,
) -> None:
    pods = OvertakenPods()
    async with screening(tmp_path, pods) as (screener, _):
        assert await screener.result(10.0) == frozenset()
        pods.watched_to = "6"
        assert await screener.result(10.0) == frozenset({PodUid("gone")})
        assert await screener.result(10.0) == frozenset({PodUid("gone")})


async def test_it_is_not_known_who_was_skipped_before_the_watch_has_shown_who_was_deleted(
    tmp_path: Path,
) -> None:
    pods = LaggingPods()
    async with screening(tmp_path, pods) as (screener, _):
        assert await screener.result(0.0) is None  # a call of the kubelet
        await asyncio.wait_for(pods.followed.wait(), 10)
        assert await screener.result(0.0) is None
        pods.is_behind = False
        await asyncio.wait_for(screener.done(), 10)
        assert await screener.result(0.0) == frozenset({PodUid("lost")})


async def test_kubelet_that_calls_before_it_has_written_its_checkpoint_is_waited_for(tmp_path: Path) -> None:
    """Else whoever was deleted lately counts as admitted without devices, and nothing is proven beside it."""
    pods = LaggingPods()
    pods.is_behind = False
    async with screening(tmp_path, pods, LateRecords) as (screener, _):
        assert await screener.result(10.0) == frozenset()


async def test_kubelet_that_stays_silent_is_looked_at_about_once_a_second_and_a_call_ends_it(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with screening(tmp_path, NoPods(), clock=clock) as (screener, records):
        assert isinstance(records, SilentRecords)
        await clock.advance(1.0)
        first = records.looks
        await clock.advance(60.0)
        assert first >= 5
        assert 55 <= records.looks - first <= 65
        assert await screener.result(5.0) == frozenset()
