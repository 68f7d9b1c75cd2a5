"""Runs JAX's own start on a TPU VM and its search for a cluster, without the compiled parts.

Arguments: the folder of the unpacked packages, the root of the host's tree. Prints as JSON what
`jax.distributed.initialize()` would use, and the environment that libtpu would be loaded with.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace


def stand_in(name: str, **values: object) -> ModuleType:
    """A module of that name with nothing but `values` in it."""
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module


def rooted(root: Path) -> Callable[[str], list[str]]:
    """The function `glob.glob` of somebody for whom `root` is /."""
    return lambda pattern: [str(path) for path in root.glob(pattern.lstrip("/"))]


def main() -> None:
    packages, root = Path(sys.argv[1]), Path(sys.argv[2])
    unset = SimpleNamespace(value=None)
    jax = stand_in("jax", __path__=[str(packages / "jax")])
    config = stand_in(
        "jax._src.config",
        jax_platforms=unset,
        jax_pjrt_client_create_options=unset,
        update=lambda name, value: None,
    )
    stand_in("jax._src", __path__=[str(packages / "jax/_src")], config=config)
    stand_in("jax._src.xla_bridge")
    vars(jax)["version"] = stand_in("jax.version", __version__="0")
    hardware = importlib.import_module("jax._src.hardware_utils")
    vars(hardware)["glob"] = stand_in("rooted_glob", glob=rooted(root))
    start = importlib.import_module("jax._src.cloud_tpu_init")
    start.cloud_tpu_init()
    clusters = importlib.import_module("jax._src.clusters")
    cluster = clusters.GkeTpuCluster
    found = {
        "is_found": cluster.is_env_present(),
        "is_gce": clusters.GceTpuCluster.is_env_present(),
        "coordinator": cluster.get_coordinator_address(5, None),
        "processes": cluster.get_process_count(),
        "process": cluster.get_process_id(),
        "environment": dict(os.environ),
    }
    print(json.dumps(found))  # noqa: T201


main()
