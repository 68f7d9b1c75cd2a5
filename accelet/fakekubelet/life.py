"""A node and the kubelets that live on it, one after the other."""

import asyncio
import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from accelet.fakekubelet.behaviour import KubeletVersion, kubelet_version
from accelet.fakekubelet.claims.claimapi import ClaimApi
from accelet.fakekubelet.claims.service import ClaimService
from accelet.fakekubelet.claims.statefile import KubeletStartError
from accelet.fakekubelet.clock import Clock, SystemClock
from accelet.fakekubelet.devices.devicemanager import DeviceManager
from accelet.fakekubelet.faults import Faults
from accelet.fakekubelet.node import AdmissionHook, ContainerState, Node, PodRecord, RegisterCall
from accelet.fakekubelet.process import Process
from accelet.fakekubelet.trace import Trace


class KubeletDownError(AssertionError):
    """A test asked something of a kubelet that is not running."""


class KubeletLife:
    """Starts and ends kubelets on one node, in good ways and bad ones; see FakeKubelet."""

    def __init__(
        self,
        dir: Path | str,  # noqa: A002 - what it is
        *,
        version: str | KubeletVersion = "1.36",
        clock: Clock | None = None,
        seed: int | None = None,
        admission_hook: AdmissionHook = lambda _pod: None,
        node_name: str = "node",
        claims: ClaimApi | None = None,
        cdi_dirs: Iterable[Path] = (),
    ) -> None:
        self.seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        clock = clock or SystemClock()
        self._node = Node(
            root=Path(dir),
            version=kubelet_version(version) if isinstance(version, str) else version,
            clock=clock,
            rng=random.Random(self.seed),  # noqa: S311 - choices to be repeated, not to be secret
            trace=Trace(clock, self.seed),
            faults=Faults(),
            admission_hook=admission_hook,
            name=node_name,
            claim_api=claims,
            cdi_dirs=tuple(cdi_dirs),
        )
        self._process: Process | None = None
        self._crashes: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"fake kubelet {self.version}, seed {self.seed}")
        await self.stop()
        if error is None and self.trace.failure is not None:
            raise self.trace.failure

    # What it is.

    @property
    def version(self) -> KubeletVersion:
        return self._node.version

    @property
    def trace(self) -> Trace:
        """Every event since the fake was made."""
        return self._node.trace

    @property
    def faults(self) -> Faults:
        """What it shall do wrong."""
        return self._node.faults

    @property
    def plugins_dir(self) -> Path:
        """Where plugins put their sockets: `dir`/device-plugins."""
        return self._node.plugins_dir

    @property
    def registry_dir(self) -> Path:
        """Where plugins that want to be found put their sockets: `dir`/plugins_registry."""
        return self._node.registry_dir

    @property
    def pod_resources_dir(self) -> Path:
        """Where the podresources socket is: `dir`/pod-resources."""
        return self._node.pod_resources_dir

    @property
    def checkpoint(self) -> Path:
        """The file in which the kubelet writes down who holds what."""
        return self._node.checkpoint

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def node_status(self) -> dict[str, tuple[int, int]]:
        """Capacity and allocatable by resource, as the API server was last told."""
        return dict(self._node.status)

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """Every pod that is bound to this node, also those that have ended."""
        return tuple(self._node.pods.values())

    @property
    def register_calls(self) -> tuple[RegisterCall, ...]:
        """Every call of Register so far, also those that were refused."""
        return tuple(self._node.register_calls)

    # Its life.

    async def start(self, *, pods_after_s: float = 0.0) -> None:
        """Starts a kubelet. It wipes the sockets, opens its own, and admits the pods bound here anew.

        The first list of pods comes `pods_after_s` seconds later on the kubelet's clock; until then
        podresources shows none. Does nothing if it runs already.

        Raises:
            KubeletStartError: dra_manager_state makes no sense; real ones do not start over it either.
        """
        await self._start(pods_after_s=pods_after_s, replacing=False)

    async def _start(self, *, pods_after_s: float, replacing: bool) -> None:
        if self._process is None:
            for record in self._node.pods.values():
                if not record.is_over:
                    record.admitted = None
                    record.rejection = None
                    record.tried = False
            self._node.trace.recover()
            self._process = Process(self._node, self._crash)
            try:
                await self._process.start(pods_after_s=pods_after_s, replacing=replacing)
            except KubeletStartError:
                await self.stop()
                raise

    def _crash(self, error: BaseException) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._crashes.append(asyncio.create_task(process.stop()))

    async def stop(self) -> None:
        """Ends the kubelet as SIGKILL does: connections drop, socket files stay and refuse."""
        await asyncio.gather(*self._crashes)
        self._crashes.clear()
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop()

    async def restart(self, *, pods_after_s: float = 0.0) -> None:
        """Stops and starts; containers run on."""
        await self.stop()
        await self.start(pods_after_s=pods_after_s)

    async def reboot(self, *, pods_after_s: float = 0.0) -> None:
        """Stops, ends every container, and starts; the checkpoint stays."""
        await self.stop()
        for record in self._node.pods.values():
            record.has_sandbox = False
            for container in record.containers.values():
                if not record.is_over:
                    container.state = ContainerState.WAITING
                    container.starts = 0
        await self.start(pods_after_s=pods_after_s)

    async def pause(self, seconds: float) -> None:
        """Lets `seconds` pass on the kubelet's clock."""
        await self._node.clock.sleep(seconds)

    # What goes wrong, besides `faults`.

    async def replace(self) -> None:
        """Another kubelet takes over: kubelet.sock is a new one from one moment to the next.

        Nothing is wiped and nothing is deleted; what plugins see is a rename onto the path.
        """
        await self.stop()
        await self._start(pods_after_s=0.0, replacing=True)

    async def replace_directory(self) -> None:
        """The plugin folder is another one: who watched the old one by inode hears no more.

        The kubelet is restarted and serves in the new folder. The checkpoint moves along.
        """
        await self.stop()
        await asyncio.to_thread(self._swap_directory)
        await self.start()

    def _swap_directory(self) -> None:
        old = self.plugins_dir.rename(self._node.root / f"device-plugins.old-{uuid.uuid4().hex[:8]}")
        self.plugins_dir.mkdir(mode=0o755)
        moved = old / self.checkpoint.name
        if moved.exists():
            moved.rename(self.checkpoint)

    def drop_socket(self) -> None:
        """Removes kubelet.sock while the kubelet runs on."""
        (self.plugins_dir / "kubelet.sock").unlink()
        self.trace.record("socket-dropped")

    async def cut_stream(self, resource: str) -> None:
        """Cuts the connection to a resource's plugin while the kubelet runs on."""
        self.trace.record("stream-cut", resource=resource)
        await self._running().plugins.cut(resource)

    def forget_held(self, resource: str, ids: Iterable[str]) -> None:
        """Makes the device manager think that `ids` are free, so that they are given twice.

        Up to 1.37 this happens to the real one when a pod's devices are freed during an Allocate.
        """
        self._running().manager.allocated.get(resource, set()).difference_update(ids)
        self.trace.record("forgot", resource=resource, devices=sorted(ids))

    def _manager(self) -> DeviceManager | None:
        return self._process.manager if self._process is not None else None

    def _claims(self) -> ClaimService | None:
        return self._process.claims if self._process is not None else None

    def _running(self) -> Process:
        if self._process is None:
            raise KubeletDownError("the kubelet is down; start it first")
        return self._process
