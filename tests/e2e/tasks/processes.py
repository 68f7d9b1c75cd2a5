"""Kubelets that are played, whose pods run their own commands as processes of this machine.

A pod has a host name, an address on the loopback network and an /etc/hosts as a kubelet writes it. The
names of other pods are there too, as a cluster's name server would have them. Its image is a folder.
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelet.gputask.objects.names import SAVE
from accelet.kube.client import Client
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.tasks.standin import StandInKubelets

_FIELD = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")
_MARK = "ACCELET_TEST_POD"
"""In the environment of every process of a pod: the UID of the pod."""

_DOMAIN = "cluster.local"

_ENTER = """
set -e
root=$1 name=$2 pod=$3 data=$4
shift 4
hostname "$name"
mount --bind "$pod/hosts" "$root/etc/hosts"
if [ "$root" != / ]; then
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mkdir -p "$root/run/accelet/task" "$root/data"
  mount --bind "$pod/asked" "$root/run/accelet/task"
  mount --bind "$data" "$root/data"
fi
exec chroot "$root" "$@"
"""


@dataclass
class _Running:
    process: Process
    folder: Path
    is_told: bool = False


class ProcessKubelets(StandInKubelets):
    """`root` is what pods see as /, `data` the folder that they have at /data; logs go to `folder`."""

    def __init__(  # noqa: PLR0917 - a fixture makes it
        self, cluster: ControlPlane, client: Client, namespace: str, root: Path, data: Path, folder: Path
    ) -> None:
        super().__init__(cluster, client, namespace)
        self._root, self._data, self._folder = root, data, folder
        self._processes: dict[str, _Running] = {}
        self._names: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            async with super().running():
                yield
        finally:
            for uid in self._processes:
                _kill(uid)
            await asyncio.gather(*(one.process.wait() for one in self._processes.values()))

    def kill(self, pod: Mapping[str, Any]) -> None:
        """Its programs end at once, as for lack of memory."""
        _kill(pod["metadata"]["uid"])

    def has_begun(self, pod: Mapping[str, Any]) -> bool:
        return pod["metadata"]["uid"] in self._processes

    def log(self, pod: Mapping[str, Any]) -> str:
        folder = self._folder / str(pod["metadata"]["uid"])
        return (folder / "log").read_text(errors="replace")

    def logs(self) -> str:
        """The last lines of every pod there was."""
        parts = [
            f"== {path.parent.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-30:])
            for path in sorted(self._folder.glob("*/log"), key=lambda path: path.stat().st_mtime)
        ]
        return "\n".join(parts)

    async def _attend(self, pod: dict[str, Any]) -> None:
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        found = self._processes.get(uid)
        if found is None and phase == "Pending" and "deletionTimestamp" not in pod["metadata"]:
            self._processes[uid] = await self._start(pod)
        if found is None or phase not in ("Pending", "Running"):
            await super()._attend(pod)
            return
        if found.process.returncode is not None:
            code = found.process.returncode
            await self._end(pod, code if code >= 0 else 128 - code)
        elif "deletionTimestamp" in pod["metadata"]:
            if not found.is_told:
                found.is_told = True
                with suppress(ProcessLookupError):
                    found.process.send_signal(signal.SIGTERM)
                grace_s = pod["metadata"].get("deletionGracePeriodSeconds") or 0
                asyncio.get_running_loop().call_later(grace_s, _kill, uid)
        else:
            (found.folder / "asked" / "save").write_text(pod["metadata"].get("annotations", {}).get(SAVE, ""))
            if phase == "Pending":
                await super()._attend(pod)

    async def _start(self, pod: Mapping[str, Any]) -> _Running:
        metadata, spec = pod["metadata"], pod["spec"]
        folder = self._folder / metadata["uid"]
        (folder / "asked").mkdir(parents=True)
        (folder / "asked" / "save").touch()
        name = spec["hostname"]
        address = f"127.{len(self._names) // 250 + 77}.0.{len(self._names) % 250 + 1}"
        self._names[f"{name}.{spec['subdomain']}"] = address
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{self._own_line(pod, address)}")
        for one in self._processes.values():
            self._tell_names(one.folder)
        self._tell_names(folder)
        (container,) = spec["containers"]
        words = [*container.get("command", ()), *container.get("args", ())]
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *("unshare", "--uts", "--mount", "sh", "-c", _ENTER, "enter"),
                *(str(self._root), name, str(folder), str(self._data), *words),
                stdout=log,
                stderr=log,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **_environment(pod)},
            )
        return _Running(process, folder)

    def _own_line(self, pod: Mapping[str, Any], address: str) -> str:
        name, subdomain = pod["spec"]["hostname"], pod["spec"]["subdomain"]
        return f"{address} {name}.{subdomain}.{self._namespace}.svc.{_DOMAIN} {name}\n"

    def _tell_names(self, folder: Path) -> None:
        """What a name server knows by now, behind the pod's own lines."""
        own = "".join((folder / "hosts").read_text().splitlines(keepends=True)[:2])
        others = "".join(
            f"{address} {name}.{self._namespace}.svc.{_DOMAIN}\n{address} {name}\n"
            for name, address in self._names.items()
        )
        with (folder / "hosts").open("r+") as file:  # the same file: it is mounted
            file.write(own + others)


def _environment(pod: Mapping[str, Any]) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    said = {_MARK: pod["metadata"]["uid"]}
    for one in container.get("env", ()):
        source = one.get("valueFrom", {}).get("fieldRef")
        if source is None:
            said[one["name"]] = one.get("value", "")
            continue
        match = _FIELD.fullmatch(source["fieldPath"])
        assert match, source
        said[one["name"]] = pod["metadata"][match[1]][match[2]]
    return said


def _kill(uid: str) -> None:
    """Ends every process of a pod, whatever group or session it is in."""
    mark = f"{_MARK}={uid}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
