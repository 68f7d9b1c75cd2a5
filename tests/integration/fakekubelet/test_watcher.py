"""Plugins that are found in plugins_registry/ instead of registering."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet, ManualClock
from accelet.kubelet.api import pluginregistration_pb2 as api
from tests.integration.fakekubelet.scripted import THING, ScriptedPlugin, devices


@asynccontextmanager
async def found(root: Path, clock: ManualClock) -> AsyncIterator[tuple[FakeKubelet, ScriptedPlugin]]:
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve("../plugins_registry/thing.sock")
        yield kubelet, plugin
        await plugin.stop()


async def told(plugin: ScriptedPlugin) -> api.RegistrationStatus:
    return await asyncio.wait_for(plugin.notified.get(), 5)


async def test_a_socket_in_the_registry_is_found_within_a_second(root: Path) -> None:
    clock = ManualClock()
    async with found(root, clock) as (kubelet, plugin):
        await clock.advance(1)
        assert (await told(plugin)).plugin_registered
        plugin.list(*devices("a"))
        await (await kubelet.registered(THING)).devices(healthy=1)
        assert [call.method for call in plugin.calls] == ["info", "options", "watch"]
        plugin.socket.unlink()
        await clock.advance(1)
        await kubelet.resource(THING).disconnected()


async def test_a_dead_stream_behind_a_living_socket_is_not_tried_again(root: Path) -> None:
    clock = ManualClock()
    async with found(root, clock) as (kubelet, plugin):
        await clock.advance(1)
        await told(plugin)
        plugin.end_stream()
        await kubelet.resource(THING).disconnected()
        await clock.advance(200)
        assert len(plugin.called("info")) == 1


async def test_a_restarted_kubelet_finds_the_socket_again(root: Path) -> None:
    clock = ManualClock()
    async with found(root, clock) as (kubelet, plugin):
        await clock.advance(1)
        await told(plugin)
        await kubelet.restart()
        assert (await told(plugin)).plugin_registered
        await kubelet.resource(THING).registered(times=2)


@pytest.mark.parametrize(
    ("info", "error"),
    [
        (api.PluginInfo(type="DRAPlugin", name=THING), "no handler registered for plugin type: DRAPlugin"),
        (
            api.PluginInfo(type="DevicePlugin", name=THING, supported_versions=["v1", "v2"]),
            "manager version, v1beta1, is not among plugin supported versions [v1 v2]",
        ),
        (
            api.PluginInfo(type="DevicePlugin", name="thing", supported_versions=["v1beta1"]),
            'the ResourceName "thing" is invalid',
        ),
    ],
)
async def test_a_plugin_that_does_not_fit_is_told_why_and_asked_again_later(
    root: Path, info: api.PluginInfo, error: str
) -> None:
    clock = ManualClock()
    async with found(root, clock) as (kubelet, plugin):
        plugin.info = info
        await clock.advance(1)
        status = await told(plugin)
        assert not status.plugin_registered
        assert error in status.error
        await kubelet.trace.until(
            lambda: any(event.event == "watcher-failed" for event in kubelet.trace), "the failure"
        )
        await clock.advance(1)
        assert not (await told(plugin)).plugin_registered
