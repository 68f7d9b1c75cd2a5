"""How an administrator wants TPU chips to be served."""

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Self

from accelet.accelerators.device import DeviceId
from accelet.accelerators.edits import Folder
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.settings import NodeFacts, Settings
from accelet.accelerators.tpu.shape import Shape, ShapeError
from accelet.runtime.settings import Contradiction

if TYPE_CHECKING:
    from accelet.accelerators.tpu.backend import TpuBackend

ControlService = Literal["node-ip", "unix", "none"]
"""Where containers find the host's service that libtpu asks before it starts."""


class TpuSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node's TPU chips, whole hosts or parts of them.

    `mode`: `whole-host` gives all chips of the host to one container, `sub-host` boxes of 1, 2, 4 or 8.
    `check`: what happens to chips that form no box, in `sub-host`: `strict` refuses, `lenient` sets no
    bounds. `half_bounds`: the shape of four chips of an 8-chip host; vLLM's and Tunix' notes say 1,4,1,
    JAX' tests 2,2,1. `processes`: whether a part of a host is described to `one` process that uses all its
    chips, as JAX does and PyTorch/XLA can, or to processes of a chip each (`per-chip`), as PyTorch/XLA does
    by itself and JAX does not. `visible_chips`: what TPU_VISIBLE_CHIPS counts there: the chips that the
    container got, from 0 (`container`), their positions on the host (`ordinal`), or the numbers of their
    device files (`device-number`); or it is unset (`none`). `topology`: that of the slice, over what the
    TPU VM and the Node's labels say. `node_labels`: ask the API server for the Node's labels, wait for
    them, and put what contradicts itself in Events on the Node. `control_service`: where containers find
    the host's service that libtpu needs from v6e on: at the node's address (`node-ip`) or at a socket below
    /var/run/tpu-plugin (`unix`); `none` says nothing. `log_folder`: the host folder below which each
    allocation gets a folder of its own for libtpu's logs; null for none.
    """

    mode: Literal["whole-host", "sub-host"] = "whole-host"
    check: Literal["strict", "lenient"] = "strict"
    half_bounds: Literal["1,4,1", "2,2,1"] = "1,4,1"
    processes: Literal["one", "per-chip"] = "one"
    visible_chips: Literal["container", "ordinal", "device-number", "none"] = "container"
    topology: str | None = None
    node_labels: bool = False
    control_service: ControlService = "node-ip"
    log_folder: str | None = "/tmp/tpu_logs"  # noqa: S108  the folder that collectors of TPU logs read

    def problems(self) -> tuple[Contradiction, ...]:
        return tuple(self._find_problems())

    def _find_problems(self) -> Iterator[Contradiction]:
        if self.mode == "whole-host":
            for name in ("check", "half_bounds", "processes", "visible_chips"):
                if getattr(self, name) != getattr(TpuSettings(), name):
                    yield Contradiction((name,), "has a meaning only with mode: sub-host")
        if self.processes == "per-chip" and self.visible_chips != TpuSettings().visible_chips:
            yield Contradiction(("visible_chips",), "has a meaning only with processes: one")
        if self.topology is not None:
            try:
                Shape.parse(self.topology)
            except ShapeError as error:
                yield Contradiction(("topology",), str(error))
        if self.log_folder is not None and not _is_plain_absolute(self.log_folder):
            yield Contradiction(("log_folder",), f"{self.log_folder!r} is not an absolute path without '..'")

    def folders_of(self, devices: Collection[DeviceId]) -> tuple[Folder, ...]:
        """A folder whose name is the same for the same chips: what the kubelet remembers stays true."""
        if self.log_folder is None or not devices:
            return ()
        ids = sorted(devices)
        mark = sha256(" ".join(ids).encode()).hexdigest()[:8]
        return (Folder(f"{self.log_folder.rstrip('/')}/{ids[0]}-x{len(ids)}-{mark}"),)

    @property
    def folder_parents(self) -> tuple[str, ...]:
        return () if self.log_folder is None else (self.log_folder,)

    def overlaps(self, other: Self) -> bool:
        """Always: a node's chips belong to one host, and are given out by one resource."""
        return True

    def backend(self, cache: ScanCache = uncached) -> "TpuBackend":
        return self.backend_on(NodeFacts(), cache)

    @property
    def wants_node_labels(self) -> bool:
        return self.node_labels

    def backend_on(self, node: NodeFacts, cache: ScanCache = uncached) -> "TpuBackend":
        # Few nodes have TPUs, and every agent reads settings: the others do without these modules.
        from accelet.accelerators.tpu.backend import TpuBackend  # noqa: PLC0415
        from accelet.accelerators.tpu.scanning.scan import ChipFinder  # noqa: PLC0415

        return TpuBackend(self, node, find=cache(ChipFinder))


def _is_plain_absolute(path: str) -> bool:
    return path.startswith("/") and path.strip("/") != "" and ".." not in path.split("/")
