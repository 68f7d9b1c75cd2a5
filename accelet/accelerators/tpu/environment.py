"""The environment that JAX, PyTorch/XLA and libtpu read in a container with TPU chips.

Names and values are those that GKE gives its containers (ai-on-gke/tpu-device-plugin, pkg/tpu/util), so that
what runs there runs here. What it takes to know a job's other hosts is not among them.
"""

from typing import Final

from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.shape import Shape

_FIRST_METRICS_PORT: Final = 8431
_SINGLE: Final = Shape(1)


def describe_process(device_files: int) -> dict[str, str]:
    """What holds for every container: no metadata server is asked, and a metrics port for each device
    file.
    """
    ports = range(_FIRST_METRICS_PORT, _FIRST_METRICS_PORT + device_files)
    return {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_RUNTIME_METRICS_PORTS": ",".join(str(port) for port in ports),
    }


def describe_whole_host(
    generation: Generation, host: Shape, slice_shape: Shape, *, ici_resilient: bool
) -> dict[str, str]:
    """What a container with all chips of a host is told of them and of the slice they belong to.

    `host` fills `slice_shape` evenly. `ici_resilient`: a slice may route around failed links.
    """
    grid = slice_shape.divided_by(host)
    assert grid is not None, "the topology was decided so"
    told = _describe_slice(generation, slice_shape) | _describe_bounds(chips=host, hosts=grid)
    if generation.ici_resilient and min(slice_shape.dims) >= 4:
        told["ENABLE_ICI_RESILIENCY"] = "true" if ici_resilient else "false"
    # Where several containers may share a host, only whoever starts the job knows the worker ids.
    if host == slice_shape and not generation.is_spread:
        told |= _describe_only_worker()
    return told


def describe_box(generation: Generation, box: Shape) -> dict[str, str]:
    """What a container with some chips of a host is told: that they are a slice of their own."""
    return {
        **_describe_slice(generation, box),
        **_describe_bounds(chips=box, hosts=_SINGLE),
        **_describe_only_worker(),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": box.bounds,
        "TPU_PROCESS_BOUNDS": _SINGLE.bounds,
    }


def _describe_slice(generation: Generation, shape: Shape) -> dict[str, str]:
    wrap = ",".join(str(closed).lower() for closed in generation.wraps(shape))
    told = {
        "TPU_TOPOLOGY": shape.text(generation.dimensions),
        "TPU_TOPOLOGY_WRAP": wrap,
        "WRAP": wrap,
        "TPU_TOPOLOGY_ALT": "false",
        "ALT": "false",
    }
    accelerator_type = generation.accelerator_type(shape)
    if accelerator_type is not None:
        told["TPU_ACCELERATOR_TYPE"] = accelerator_type
    return told


def _describe_bounds(*, chips: Shape, hosts: Shape) -> dict[str, str]:
    return {
        "TPU_CHIPS_PER_HOST_BOUNDS": chips.bounds,
        "CHIPS_PER_HOST_BOUNDS": chips.bounds,
        "TPU_HOST_BOUNDS": hosts.bounds,
        "HOST_BOUNDS": hosts.bounds,
    }


def _describe_only_worker() -> dict[str, str]:
    return {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
