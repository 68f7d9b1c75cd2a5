"""DRA drivers that a fake kubelet finds, connects to, watches, and cleans up after."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet, ManualClock
from tests.integration.fakekubelet.scripteddriver import BOTH, DRIVER, Claims, ScriptedDriver, serving


@asynccontextmanager
async def kubelet_of(
    root: Path, claims: Claims, version: str = "1.36"
) -> AsyncIterator[tuple[FakeKubelet, ManualClock]]:
    clock = ManualClock()
    async with FakeKubelet(root, version=version, clock=clock, claims=claims, seed=1) as kubelet:
        yield kubelet, clock


async def found(kubelet: FakeKubelet, clock: ManualClock) -> None:
    """The next look at the registry, and what comes of it."""
    await clock.advance(1)
    await kubelet.driver_registered(DRIVER)


async def told(driver: ScriptedDriver) -> str:
    return (await asyncio.wait_for(driver.statuses.get(), 5)).error


@pytest.mark.parametrize(
    ("version", "service", "health"),
    [
        ("1.32", "v1beta1.DRAPlugin", None),
        ("1.33", "v1beta1.DRAPlugin", None),
        ("1.34", "v1.DRAPlugin", None),
        ("1.36", "v1.DRAPlugin", "v1alpha1"),
        ("1.37", "v1.DRAPlugin", "v1"),
    ],
)
async def test_each_version_calls_the_services_it_knows(
    root: Path, version: str, service: str, health: str | None
) -> None:
    async with (
        kubelet_of(root, Claims(), version) as (kubelet, clock),
        serving(ScriptedDriver(root)) as driver,
    ):
        driver.says = [("one", 1, "")]
        await found(kubelet, clock)
        assert await told(driver) == ""
        assert kubelet.driver(DRIVER).client.service == service
        if health is not None:
            await kubelet.driver(DRIVER).said("one", "Healthy")
        assert driver.streams == ([] if health is None else [health])


async def test_the_first_service_of_the_drivers_own_list_is_called(root: Path) -> None:
    listed = ("v9.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAPlugin")
    async with kubelet_of(root, Claims()) as (kubelet, clock), serving(ScriptedDriver(root, listed=listed)):
        await found(kubelet, clock)
        assert kubelet.driver(DRIVER).client.service == "v1beta1.DRAPlugin"


@pytest.mark.parametrize(
    ("version", "listed", "error"),
    [
        ("1.36", (), "empty list of supported gRPC services (aka supported versions)"),
        (
            "1.33",
            ("v1.DRAPlugin",),
            '(["v1.DRAPlugin"]) are supported by the kubelet (["v1beta1.DRAPlugin"])',
        ),
        ("1.31", BOTH, "no handler registered for plugin type: DRAPlugin"),
    ],
)
async def test_a_driver_the_kubelet_cannot_use_is_told_why(
    root: Path, version: str, listed: tuple[str, ...], error: str
) -> None:
    driver = ScriptedDriver(root, listed=listed)
    async with kubelet_of(root, Claims(), version) as (kubelet, clock), serving(driver):
        await clock.advance(1)
        assert error in await told(driver)
        assert not kubelet.driver(DRIVER).is_connected


async def test_all_slices_are_removed_when_a_kubelet_starts_and_tried_again(root: Path) -> None:
    claims = Claims(fails=2)
    async with kubelet_of(root, claims) as (kubelet, clock):
        await clock.advance(0.9)
        assert claims.wiped == []
        await clock.advance(3)
        assert claims.wiped == [None]
        await kubelet.restart()
        await clock.advance(0)
        assert claims.wiped == [None, None]


@pytest.mark.parametrize(
    ("version", "is_deregistered", "wiped"),
    [
        ("1.33", True, [None, DRIVER]),
        ("1.33", False, [None]),
        ("1.36", True, [None, DRIVER]),
        ("1.36", False, [None, DRIVER]),
    ],
)
async def test_slices_go_half_a_minute_after_their_driver(
    root: Path, version: str, *, is_deregistered: bool, wiped: list[str | None]
) -> None:
    """Before 1.34 a connection that is lost is no driver that is gone."""
    claims = Claims()
    async with kubelet_of(root, claims, version) as (kubelet, clock), serving(ScriptedDriver(root)) as driver:
        await found(kubelet, clock)
        if is_deregistered:
            driver.socket.unlink()
            await clock.advance(1)
        else:
            await driver.disconnect()
        await kubelet.driver(DRIVER).disconnected()
        await clock.advance(29)
        assert claims.wiped == [None]
        await clock.advance(2)
        assert claims.wiped == wiped


async def test_a_driver_that_is_back_in_time_keeps_its_slices(root: Path) -> None:
    claims = Claims()
    async with kubelet_of(root, claims) as (kubelet, clock), serving(ScriptedDriver(root)) as driver:
        await found(kubelet, clock)
        await driver.stop()
        await kubelet.driver(DRIVER).disconnected()
        await clock.advance(25)
        async with serving(ScriptedDriver(root), "again-reg.sock"):
            await found(kubelet, clock)
            await clock.advance(40)
            assert claims.wiped == [None]


async def test_of_two_instances_the_newest_that_is_connected_is_called(root: Path) -> None:
    async with kubelet_of(root, Claims()) as (kubelet, clock), serving(ScriptedDriver(root), "a.sock") as old:
        await found(kubelet, clock)
        driver = kubelet.driver(DRIVER)
        new = ScriptedDriver(root)
        async with serving(new, "b.sock"):
            await clock.advance(1)
            await driver.connected(times=2)
            await kubelet.trace.until(lambda: all(one.is_connected for one in driver.instances), "both")
            assert driver.client.endpoint == new.endpoint
        await kubelet.trace.until(lambda: driver.client.endpoint == old.endpoint, "the old one to be called")


async def test_an_endpoint_is_taken_once(root: Path) -> None:
    first, second = ScriptedDriver(root), ScriptedDriver(root)
    async with kubelet_of(root, Claims()) as (kubelet, clock), serving(first, "a.sock"):
        await found(kubelet, clock)
        await told(first)
        async with serving(second, "b.sock"):
            second.endpoint = first.endpoint
            await clock.advance(1)
            taken = f"endpoint {first.endpoint} already registered for DRA driver plugin {DRIVER}"
            assert await told(second) == f"RegisterPlugin error -- {taken}"


async def test_health_holds_until_its_time_is_over_or_its_stream(root: Path) -> None:
    async with (
        kubelet_of(root, Claims(), "1.37") as (kubelet, clock),
        serving(ScriptedDriver(root)) as driver,
    ):
        driver.says = [("one", 1, ""), ("two", 2, "hot")]
        await found(kubelet, clock)
        view = kubelet.driver(DRIVER)
        await view.said("two", "Unhealthy")
        assert view.health == {("pool", "one"): ("Healthy", ""), ("pool", "two"): ("Unhealthy", "hot")}
        await clock.advance(31)
        assert view.health == {}
        driver.say(("one", 0, "no idea"))
        await view.said("one", "Unknown")
        await driver.stop()
        await kubelet.trace.until(lambda: not view.health, "the health to be forgotten")


@pytest.mark.parametrize(("version", "streams"), [("1.36", 2), ("1.37", 1)])
async def test_a_driver_without_health_is_asked_again_by_1_36_alone(
    root: Path, version: str, streams: int
) -> None:
    async with (
        kubelet_of(root, Claims(), version) as (kubelet, clock),
        serving(ScriptedDriver(root)) as driver,
    ):
        driver.refuses_health = True
        await found(kubelet, clock)
        await kubelet.trace.until(lambda: _ended(kubelet) >= 1, "the stream to end")
        await clock.advance(6)
        if streams == 2:
            await kubelet.trace.until(lambda: _ended(kubelet) >= 2, "the next stream to end")
        assert len(driver.streams) == streams


def _ended(kubelet: FakeKubelet) -> int:
    return sum(event.event == "health-ended" for event in kubelet.trace)
