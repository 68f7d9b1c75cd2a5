"""How an administrator wants TPU chips to be served."""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.settings import Settings
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.shape import Shape, ShapeError
from accelet.runtime.settings import Contradiction


class TpuSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node's TPU chips, whole hosts or parts of them.

    `mode`: `whole-host` gives all chips of the host to one container, `sub-host` boxes of 1, 2, 4 or 8.
    `check`: what happens to chips that form no box, in `sub-host`: `strict` refuses, `lenient` sets no
    bounds. `half_bounds`: the shape of four chips of an 8-chip host; vLLM's and Tunix' notes say 1,4,1,
    JAX' tests 2,2,1. `visible_chips`: what TPU_VISIBLE_CHIPS counts where a container gets some of the
    chips. A container sees only the device files it was given, so it is left unset (`none`); privileged
    containers see all files and need `ordinal` (the chip's position on the host) or `device-number` (of
    its file below /dev), as their libtpu understands it. `topology`: that of the slice, over what the TPU
    VM and the Node's labels say. `node_labels`: ask the API server for the Node's labels, and put what
    contradicts itself in Events on the Node. `check_owners`: report processes that have a chip's file open;
    needs the host's process ids and CAP_SYS_PTRACE. `log_folder`: the host folder below which each
    allocation gets a folder of its own for libtpu's logs; null for none.
    """

    mode: Literal["whole-host", "sub-host"] = "whole-host"
    check: Literal["strict", "lenient"] = "strict"
    half_bounds: Literal["1,4,1", "2,2,1"] = "1,4,1"
    visible_chips: Literal["none", "ordinal", "device-number"] = "none"
    topology: str | None = None
    node_labels: bool = False
    check_owners: bool = False
    log_folder: str | None = "/tmp/tpu_logs"  # noqa: S108  the folder that collectors of TPU logs read

    def problems(self) -> tuple[Contradiction, ...]:
        return tuple(self._find_problems())

    def _find_problems(self) -> Iterator[Contradiction]:
        if self.mode == "whole-host":
            for name in ("check", "half_bounds", "visible_chips"):
                if getattr(self, name) != getattr(TpuSettings(), name):
                    yield Contradiction((name,), "has a meaning only with mode: sub-host")
        if self.topology is not None:
            try:
                Shape.parse(self.topology)
            except ShapeError as error:
                yield Contradiction(("topology",), str(error))
        if self.log_folder is not None and not _is_plain_absolute(self.log_folder):
            yield Contradiction(("log_folder",), f"{self.log_folder!r} is not an absolute path without '..'")

    def overlaps(self, other: Self) -> bool:
        """Always: a node's chips belong to one host, and are given out by one resource."""
        return True

    def backend(self, cache: ScanCache = uncached) -> TpuBackend:
        return TpuBackend(self)

    @property
    def wants_node_labels(self) -> bool:
        return self.node_labels

    def backend_on(self, labels: Mapping[str, str], cache: ScanCache = uncached) -> TpuBackend:
        return self.backend(cache).with_node_labels(labels)


def _is_plain_absolute(path: str) -> bool:
    return path.startswith("/") and path.strip("/") != "" and ".." not in path.split("/")
