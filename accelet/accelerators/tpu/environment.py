"""The environment that JAX, PyTorch/XLA and libtpu read in a container with TPU chips.

Names and values are those that GKE gives its containers (ai-on-gke/tpu-device-plugin, pkg/tpu/util), so that
what runs there runs here. What it takes to know a job's other hosts is not among them.
"""

from typing import Final

from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.shape import Shape

_FIRST_METRICS_PORT: Final = 8431
_FIRST_PROCESS_PORT: Final = 8476
_SINGLE: Final = Shape(1)

NO_METADATA: Final = {"TPU_SKIP_MDS_QUERY": "true"}
"""No metadata server is asked. Only for containers that are told what it would say."""


def describe_metrics_ports(numbers: list[int]) -> dict[str, str]:
    """A port for each device file, by the number that the file has on its host.

    So no two containers of a pod, or of the host's network, have one in common.
    """
    return {"TPU_RUNTIME_METRICS_PORTS": ",".join(str(_FIRST_METRICS_PORT + number) for number in numbers)}


def describe_whole_host(
    generation: Generation, host: Shape, slice_shape: Shape, *, ici_resilient: bool
) -> dict[str, str]:
    """What a container with all chips of a host is told of them and of the slice they belong to.

    `host` fills `slice_shape` evenly. `ici_resilient`: a slice may route around failed links.
    """
    grid = slice_shape.divided_by(host)
    assert grid is not None, "the slice was decided so"
    told = {
        **NO_METADATA,
        **_describe_slice(generation, slice_shape),
        **_describe_bounds(chips=host, hosts=grid),
    }
    if generation.ici_resilient and min(slice_shape.dims) >= 4:
        told["ENABLE_ICI_RESILIENCY"] = "true" if ici_resilient else "false"
    if host == slice_shape:
        told |= _describe_only_worker()
    return told


def describe_box(generation: Generation, box: Shape) -> dict[str, str]:
    """What a container with some chips of a host is told: that they are a slice of their own."""
    return {
        **NO_METADATA,
        **_describe_slice(generation, box),
        **_describe_bounds(chips=box, hosts=_SINGLE),
        **_describe_only_worker(),
    }


def describe_one_process(box: Shape, first: int) -> dict[str, str]:
    """That one process uses the whole box, whose first chip is the host's `first`: what JAX does.

    PyTorch/XLA starts as many processes as TPU_PROCESS_BOUNDS has (`num_local_processes`), and takes what is
    set here instead of what it would set itself (`configure_topology`): one process, a thread a chip. Its
    port is no other container's of the pod.
    """
    port = _FIRST_PROCESS_PORT + first
    return {
        "TPU_CHIPS_PER_PROCESS_BOUNDS": box.bounds,
        "TPU_PROCESS_BOUNDS": _SINGLE.bounds,
        "TPU_PROCESS_ADDRESSES": f"localhost:{port}",
        "TPU_PROCESS_PORT": str(port),
        "CLOUD_TPU_TASK_ID": "0",
    }


def describe_process_a_chip(box: Shape) -> dict[str, str]:
    """That each chip of the box has a process of its own: what PyTorch/XLA does on whole hosts.

    It adds what differs from process to process itself.
    """
    return {"TPU_CHIPS_PER_PROCESS_BOUNDS": _SINGLE.bounds, "TPU_PROCESS_BOUNDS": box.bounds}


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
