"""Many slices that are given back at one time, to a provider that takes a few requests and answers late."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.kinds.slicerequest import SliceRequestStatus
from accelet.kube.apiresources import ObjectApi
from accelet.kube.client import Client
from accelet.provisioner.bookings.keeper import BookingKeeper
from accelet.provisioner.controller import Controller
from accelet.provisioner.deciding.view import SliceRecord
from accelet.provisioner.demand.owners import parse_job
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.events import SliceEvents
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.pools.pool import Failure, NodePool, PoolList
from accelet.provisioner.record import SliceRequest, status_of
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from accelet.provisioner.writer import SliceWriter
from tests.fakes.clocks import FakeClock
from tests.unit.provisioner.manifests import job

SLICES, MOST, LAG_S, ANSWER_S = 60, 4, 5.0, 5.0


@dataclass
class _LateProvider:
    """It answers a deletion after `ANSWER_S`, and has the pool deleted by then."""

    clock: FakeClock
    pools: dict[str, NodePool]
    pool_label: str = "a-label"

    async def list_pools(self) -> PoolList:
        return PoolList(tuple(self.pools.values()), self.clock.now_s())

    async def create(self, plan: PoolPlan) -> Failure | None:
        raise AssertionError(f"{plan.name} is made")

    async def delete(self, pool: str) -> Failure | None:
        await self.clock.sleep(ANSWER_S)
        del self.pools[pool]
        return None

    async def run(self) -> None:
        return None


@dataclass
class _Nobody:
    """An API server that nobody has anything to ask of."""

    said: list[object] = field(default_factory=list)


class _Writer(SliceWriter):
    """What is written is known after `write_s`. `written` counts the writes by request."""

    def __init__(self, state: ProvisionerState, clock: FakeClock, write_s: float) -> None:
        nobody = _Nobody()
        super().__init__(cast(Client, nobody), FencedWriter(cast(ObjectApi, nobody), lambda: True), state)
        self.known, self.written = state, Counter[str]()
        self.clock, self.write_s = clock, write_s

    async def write(self, request: SliceRequest, record: SliceRecord, hosts: str) -> bool:
        self.written[request.name] += 1
        if self.write_s:
            await self.clock.sleep(self.write_s)
        status = msgspec.convert(status_of(record, hosts, request.status), SliceRequestStatus)
        version = str(int(request.resource_version) + 1)
        self.known.set_request(replace(request, status=status, resource_version=version))
        return True

    async def finish(self, request: SliceRequest) -> None:
        self.known.remove_request(request.key, request.uid)

    async def has_work(self, nodes: Iterable[str]) -> bool:
        return False


@pytest.mark.parametrize("write_s", [0.0, LAG_S])
async def test_many_slices_go_back_to_a_provider_that_answers_late(write_s: float) -> None:
    """Also where the API server takes longer to write down that one is deleted than that is believed for."""
    clock = FakeClock()
    settings = ProvisionerSettings(version="v1", most_operations=MOST, lag_s=LAG_S, poll_s=1.0)
    state, pools = ProvisionerState(settings, "a-label"), dict[str, NodePool]()
    spec = spec_of(derive_slices(parse_job(job())).slices[0])
    for index in range(SLICES):
        name = f"slice-{index}"
        record = SliceRecord("Releasing", "is over", since_s=clock.now_s() - 600.0, pool=f"pool-{index}")
        status = msgspec.convert(status_of(record, "4/4", SliceRequestStatus()), SliceRequestStatus)
        named = msgspec.structs.replace(spec.slice_set, name=name)
        own = msgspec.structs.replace(spec, slice_set=named)
        state.set_request(SliceRequest("ml", name, f"uid-{index}", "1", (), True, False, own, status))
        pools[f"pool-{index}"] = NodePool(f"pool-{index}", f"uid-{index}", "running")
    writer = _Writer(state, clock, write_s)
    fenced = FencedWriter(cast(ObjectApi, _Nobody()), lambda: True)
    controller = Controller(
        state,
        writer,
        _LateProvider(clock, pools),
        settings,
        ProvisionerMetrics(CollectorRegistry()),
        events=SliceEvents(lambda _: None),
        bookings=BookingKeeper(fenced, writer, state),
        cluster="a-cluster",
        clock=clock,
        wall_s=clock.now_s,
    )
    work = asyncio.create_task(controller.run())
    await clock.advance(SLICES / MOST * (ANSWER_S + 4 * write_s) + 60.0)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert not pools, "as many as may be at one time were deleted at each time"
    assert not state.requests
    assert max(writer.written.values()) <= 3, "what waits for its turn is not written down again and again"
