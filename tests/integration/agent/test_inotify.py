"""An agent on a node where others have used up all inotify instances."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet
from tests.integration.agent.running import GPU, cards_config, write_config

LIMIT = "/proc/sys/user/max_inotify_instances"
"""What fs.inotify.max_user_instances is in a user namespace of one's own: the limit of this one alone."""

NONE_LEFT = ("unshare", "--user", "--map-root-user", "sh", "-c", f'echo 0 >{LIMIT} && exec "$0" "$@"')


def has_namespaces() -> bool:
    try:
        return subprocess.run([*NONE_LEFT, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@asynccontextmanager
async def agent_without_inotify(folder: Path, config: Path) -> AsyncIterator[Path]:
    """Runs an agent without inotify until the end of the block; yields its log."""
    (folder / "dev").mkdir()
    log = folder / "log"
    command = (sys.executable, "-m", "accelet", "agent", "--http", "", "--config", str(config))
    places = ("--host-root", str(folder), "--kubelet-dir", str(folder))
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *NONE_LEFT, *command, *places, stdout=written, stderr=written
        )
    try:
        yield log
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
    assert process.returncode == 0, log.read_text()


@pytest.mark.skipif(not has_namespaces(), reason="this machine allows no user namespaces")
async def test_agent_starts_and_polls(folder: Path) -> None:
    config = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet, agent_without_inotify(folder, config) as log:
        await kubelet.resource(GPU).devices(healthy=2, timeout_s=30)
        write_config(folder, cards_config(3))
        await kubelet.resource(GPU).devices(healthy=3, timeout_s=30)
        await kubelet.restart()
        await kubelet.resource(GPU).devices(healthy=3, timeout_s=30)
        assert "no inotify left, polling instead" in log.read_text()
