import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from accelet.fakekubelet import FakeKubelet
from accelet.fakekubelet.sample_plugin import SamplePlugin
from tests.integration.fakekubelet.scripted import ScriptedPlugin

SAMPLE = SamplePlugin.resource


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a short path: a socket's may have 107 bytes, pytest's own are long."""
    with TemporaryDirectory(prefix="fk-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def devices(root: Path) -> Path:
    folder = root / "devices"
    folder.mkdir()
    for number in range(4):
        (folder / f"dev-{number}").write_text("healthy")
    return folder


@pytest.fixture(autouse=True)
async def no_plugin_is_left() -> AsyncIterator[None]:
    yield
    for plugin in list(ScriptedPlugin.serving):
        await plugin.stop()


@contextlib.asynccontextmanager
async def running(plugin: SamplePlugin) -> AsyncIterator[SamplePlugin]:
    task = asyncio.create_task(plugin.run())
    try:
        yield plugin
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def plugin(root: Path, devices: Path) -> AsyncIterator[SamplePlugin]:
    async with running(SamplePlugin(root / "device-plugins", devices)) as plugin:
        yield plugin


@pytest.fixture
async def kubelet(root: Path) -> AsyncIterator[FakeKubelet]:
    async with FakeKubelet(root) as kubelet:
        yield kubelet


@pytest.fixture
async def scripted(kubelet: FakeKubelet) -> AsyncIterator[ScriptedPlugin]:
    """A plugin that serves and has not registered."""
    plugin = ScriptedPlugin(kubelet)
    await plugin.serve()
    yield plugin
    await plugin.stop()
