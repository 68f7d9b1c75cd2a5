"""A controller whose API server has said nothing for long is not ready, and says of what it heard nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.fakeapi import FakeApi
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.settings import TaskSettings
from accelet.gputask.state import TaskState
from accelet.gputask.watching import Watching as TaskWatching
from accelet.kube.client import Client
from accelet.kube.watching.silence import LONGEST_SILENCE_S
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from accelet.provisioner.watching import Watching as ProvisionerWatching
from accelet.runtime.clock import SYSTEM_CLOCK
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.watching import Watching as SchedulerWatching


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    with FakeApi() as api:
        client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
        yield client
        client.close()


def _nobody(_: object) -> None:
    return None


async def test_each_controller_says_what_it_has_not_heard_of(client: Client) -> None:
    registry = CollectorRegistry()
    scheduler = SchedulerWatching(
        client, SchedulerState(Scheme(), GATE_PREFIX), SchedulerMetrics(registry), listener=lambda: None
    )
    provisioner = ProvisionerWatching(
        client,
        ProvisionerState(ProvisionerSettings(version="v1"), "a-label"),
        ProvisionerMetrics(registry),
        see_request=_nobody,
        see_owner=_nobody,
        see_pool=_nobody,
        see_booking=_nobody,
    )
    tasks = TaskWatching(client, TaskState(TaskSettings(version="v1").times), TaskMetrics(registry), _nobody)
    now_s = SYSTEM_CLOCK.now_s()
    for watching, named in (
        (scheduler, "nodes, plans, pods"),
        (provisioner, "nodes, pods, slice requests"),
        (tasks, "jobs, moves, pods, services, tasks"),
    ):
        assert watching.silence_at(now_s) == ""
        late_s = now_s + LONGEST_SILENCE_S + 1
        assert watching.silence_at(late_s).startswith(f"the API server has said nothing of {named} for ")
