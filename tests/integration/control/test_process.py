"""A controller's process over HTTP: the smallest one works, gives way, and ends with one error."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.process import ControllerOptions, ControllerWork, run_controller
from accelet.fakeapi import Answer, FakeApi, Fault
from accelet.kube.errors import ConfigurationError
from accelet.runtime.probes import AddressError
from tests.integration.control import smallest
from tests.integration.control.smallest import COUNT, Counting
from tests.integration.kube.waiting import eventually
from tests.integration.terms import STEADY

MAPS = "api/v1/configmaps"
PAGE = Path(__file__).parents[3] / "docs/decisions/0050-what-a-controller-brings.md"


class Barred(Counting):
    """It may never stand for election."""

    async def may_stand(self) -> None:
        await asyncio.Event().wait()


class Broken(Counting):
    """Its watch has a fault."""

    async def watch(self) -> None:
        raise ZeroDivisionError("a fault of ours")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(bookmark_s=1.0) as server:
        yield server


@pytest.fixture
def options(api: FakeApi, tmp_path: Path) -> ControllerOptions:
    return ControllerOptions(
        "counting", api.write_kubeconfig(tmp_path / "kubeconfig"), "kube-system", terms=STEADY
    )


def put(api: FakeApi, name: str, **data: str) -> None:
    body = {"metadata": {"name": name, "labels": {"example.com/counted": ""}}, "data": data}
    api.state.create(MAPS, "ml", body)


def told(api: FakeApi, name: str) -> str | None:
    annotations = api.state.get(MAPS, ("ml", name))["metadata"].get("annotations") or {}
    count: str | None = annotations.get(COUNT)
    return count


@asynccontextmanager
async def running(
    options: ControllerOptions, work: type[ControllerWork] = Counting
) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(run_controller(options, CollectorRegistry(), work))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_smallest_controller_tells_what_was_there_and_what_comes(
    api: FakeApi, options: ControllerOptions
) -> None:
    put(api, "old", a="1", b="2")
    async with running(options):
        await eventually(lambda: told(api, "old") == "2")
        put(api, "new", a="1")
        await eventually(lambda: told(api, "new") == "1")
        api.state.patch(MAPS, ("ml", "new"), "merge-patch", {"data": {"b": "2", "c": "3"}})
        await eventually(lambda: told(api, "new") == "3")


async def test_write_goes_on_after_a_conflict(api: FakeApi, options: ControllerOptions) -> None:
    conflict = Fault(Answer(409, "Conflict"), method="PATCH", path="configmaps", times=2)
    api.faults.append(conflict)
    put(api, "old", a="1")
    async with running(options):
        await eventually(lambda: told(api, "old") == "1")
    assert conflict.hits == 2


async def test_one_replica_writes_at_a_time_and_the_next_takes_over(
    api: FakeApi, options: ControllerOptions
) -> None:
    async with running(options):
        put(api, "first", a="1")
        await eventually(lambda: told(api, "first") == "1")
        async with running(options) as second:
            put(api, "second", a="1")
            await eventually(lambda: told(api, "second") == "1")
            assert api.count(method="PATCH", path="configmaps") == 2
    async with running(options):
        put(api, "third", a="1")
        await eventually(lambda: told(api, "third") == "1")
    assert second.cancelled()


async def test_a_replica_that_may_not_stand_leaves_the_lease_to_another(
    api: FakeApi, options: ControllerOptions
) -> None:
    put(api, "old", a="1")
    async with running(options, Barred):
        await eventually(lambda: api.count(path="configmaps") > 0)
        assert api.count(path="leases") == 0
        async with running(options):
            await eventually(lambda: told(api, "old") == "1")


async def test_fault_of_one_task_ends_the_process_as_itself(options: ControllerOptions) -> None:
    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        await run_controller(options, CollectorRegistry(), Broken)


async def test_no_way_to_the_api_server_ends_it_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        await run_controller(
            ControllerOptions("counting", tmp_path / "absent"), CollectorRegistry(), Counting
        )


async def test_port_that_is_taken_ends_it_in_words(api: FakeApi, options: ControllerOptions) -> None:
    host, port = re.fullmatch(r"http://(.+):(\d+)", api.url).groups()  # type: ignore[union-attr]
    taken = ControllerOptions("counting", options.kubeconfig, http=(host, int(port)))
    with pytest.raises(AddressError, match="cannot listen"):
        await run_controller(taken, CollectorRegistry(), Counting)


def test_decision_page_shows_this_very_controller() -> None:
    assert Path(smallest.__file__).read_text(encoding="utf-8") in PAGE.read_text(encoding="utf-8")
