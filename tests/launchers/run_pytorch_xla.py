"""Runs PyTorch/XLA's own launcher as `xmp.spawn` does, up to the moment where it would open the chips.

Arguments: the folder of the unpacked packages, the root of the host's tree. Prints the environment that each
process would have had, as JSON. Only what needs torch's libraries is replaced by empty modules.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def stand_in(name: str, **values: object) -> ModuleType:
    """A module of that name with nothing but `values` in it."""
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module


def load_launcher(packages: Path, root: Path) -> Any:
    stand_in("torch")
    torch_xla = stand_in("torch_xla", __path__=[str(packages / "torch_xla")])
    stand_in("torch_xla.core", __path__=[str(packages / "torch_xla/core")])
    stand_in("torch_xla.core.xla_model")
    plugins = stand_in("torch_xla.experimental.plugins", DevicePlugin=object)
    stand_in("torch_xla.experimental", __path__=[], plugins=plugins)
    stand_in("torch_xla.utils", __path__=[str(packages / "torch_xla/utils")])
    stand_in("torch_xla._internal", __path__=[str(packages / "torch_xla/_internal")])
    tpu = importlib.import_module("torch_xla._internal.tpu")
    vars(torch_xla)["tpu"] = tpu
    # It looks for chips below /sys, which a container shares with its host: here that is a tree of ours.
    vars(tpu)["glob"] = stand_in("rooted_glob", glob=rooted(root))
    return tpu


def rooted(root: Path) -> Callable[[str], list[str]]:
    """The function `glob.glob` of somebody for whom `root` is /."""
    return lambda pattern: [str(path) for path in root.glob(pattern.lstrip("/"))]


def main() -> None:
    launcher = load_launcher(Path(sys.argv[1]), Path(sys.argv[2]))
    plugin = launcher.TpuPlugin()
    before = dict(os.environ)
    count = plugin.physical_chip_count()
    processes = []
    for rank in range(count):
        os.environ.clear()
        os.environ.update(before)
        plugin.configure_multiprocess(rank, count)
        processes.append(dict(os.environ))
    os.environ.clear()
    os.environ.update(before)
    plugin.configure_single_process()
    worker = [launcher.version(), launcher.worker_id(), launcher.get_worker_ips()]
    print(json.dumps({"spawned": processes, "single": dict(os.environ), "worker": worker}))  # noqa: T201


main()
