"""Whether the plugin ends well, and begins well after it did not."""

import asyncio
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from accelet.fakekubelet.conformance.bench import PATIENCE_S, Bench, Check, FailedError, LateError, timed

_KUBELETS_OWN: Final = {"kubelet.sock", "kubelet_internal_checkpoint"}


async def ends_soon(bench: Bench) -> str:
    await bench.ready()
    await bench.plugin.terminate()
    try:
        took = await timed(asyncio.wait_for(bench.plugin.wait(), PATIENCE_S))
    except TimeoutError:
        raise LateError(f"{PATIENCE_S:g} s after SIGTERM it still ran", PATIENCE_S - 2) from None
    if took > 2:
        raise LateError(f"it took {took:.1f} s to end after SIGTERM; 2 s are allowed", took - 2)
    return f"after {took * 1000:.0f} ms"


async def takes_its_socket_along(bench: Bench) -> str:
    await bench.ready()
    await bench.ended(see="S1")
    left = sorted(path.name for path in _sockets(bench.kubelet.plugins_dir))
    if left:
        raise FailedError(f"after SIGTERM it left {', '.join(left)} behind")
    return "gone"


async def leaves_no_litter(bench: Bench) -> str:
    await bench.ready()
    await bench.ended(see="S1")
    folder = bench.kubelet.plugins_dir
    left = sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in _KUBELETS_OWN and not path.name.startswith(".") and not path.is_socket()
    )
    if left:
        raise FailedError(f"it left {', '.join(left)} in the folder: a kubelet takes that for a checkpoint")
    return "nothing"


def _sockets(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name not in _KUBELETS_OWN and stat.S_ISSOCK(path.stat().st_mode):
            yield path


async def clears_up_after_a_crash(bench: Bench) -> str:
    view = await bench.ready()
    mine = set(_sockets(bench.kubelet.plugins_dir))
    bench.needed_pid()
    await bench.plugin.kill()
    await asyncio.sleep(1.1)  # some name their sockets by the second
    await bench.launch()
    await bench.back(view, 2)
    left = sorted(path.name for path in mine if path.exists() and not _is_live(path))
    if left:
        raise FailedError(f"after SIGKILL and a new start its old {', '.join(left)} is still there")
    return "gone"


async def leaves_strangers_alone(bench: Bench) -> str:
    await bench.kubelet.start()
    folder = bench.kubelet.plugins_dir
    (folder / "stranger").write_text("not yours")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(folder / "stranger.sock"))
        stranger.listen()
        view = await bench.ready()
        await bench.plugin.kill()
        await bench.launch()
        await bench.back(view, 2)
        await bench.ended(see="S1")
        lost = [name for name in ("stranger", "stranger.sock") if not (folder / name).exists()]
    if lost:
        raise FailedError(f"it removed {', '.join(lost)}, which others had put there")
    return "untouched"


def _is_live(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


STOPPING: Final[tuple[Check[Bench], ...]] = (
    Check("S1", "ends within 2 s of SIGTERM", ends_soon, needs_process=True),
    Check("S2", "takes its socket along on SIGTERM", takes_its_socket_along),
    Check("S3", "leaves nothing else in the kubelet's folder", leaves_no_litter),
    Check("S4", "clears away its old socket after a SIGKILL", clears_up_after_a_crash, needs_process=True),
    Check("S5", "touches nothing that is not its own", leaves_strangers_alone),
)
