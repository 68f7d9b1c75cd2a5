"""What launchers of several processes read in a rank's environment: torchrun, and torch.distributed.

torchrun takes the default of its option `--nnodes` from PET_NNODES, and so on (torch/distributed/run.py and
torch/distributed/argparse_util.py of PyTorch 1.9 to 2.15).
"""

from collections.abc import Mapping
from typing import Final

from accelet.gputask.objects.names import job_name
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import TaskCards, TaskContainer

DEFAULT_CLUSTER_DOMAIN: Final = "cluster.local"

PARTS_DOMAIN: Final = "gpu.intel.com"
"""Of extended resources whose cards have tiles."""

_PORT: Final = "29500"
"""Where torch.distributed listens unless told otherwise."""

_RENDEZVOUS_PORT: Final = "29400"
"""Where torchrun's rendezvous by c10d listens unless told otherwise."""

_HIERARCHY: Final = "ZE_FLAT_DEVICE_HIERARCHY"


def read_world(task: GpuTask) -> str:
    """The number of ranks as PET_NNODES says it: `8`, or `4:8` where 4 are enough to begin.

    Empty where the ranks are told nothing of each other.
    """
    if not task.meets:
        return ""
    size = str(task.spec.replicas)
    return f"{task.least}:{size}" if task.is_elastic else size


def meeting_environment(task: GpuTask, attempt: int, cluster_domain: str) -> Mapping[str, str]:
    """Where the ranks meet, for all ranks alike. Empty where they are not told.

    An elastic task has torchrun's c10d rendezvous: its default, `static`, waits for the most ranks. The rank
    that serves it must know its own name in the endpoint. Before PyTorch 2 a pod knows only its hostname and
    the full name in its /etc/hosts, and later ones ask a name server that may not know the pod yet.
    So the endpoint is the full name.
    """
    if not task.meets:
        return {}
    job = job_name(task.name, attempt)
    address = f"{job}-0.{task.name}"
    said = {
        "MASTER_ADDR": address,
        "MASTER_PORT": _PORT,
        "WORLD_SIZE": str(task.spec.replicas),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": _PORT,
        "PET_NNODES": read_world(task),
    }
    if not task.is_elastic:
        return said
    host = f"{address}.{task.namespace}.svc.{cluster_domain}"
    elastic = {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{host}:{_RENDEZVOUS_PORT}",
        "PET_RDZV_ID": job,
    }
    return said | elastic


def process_environment(task: GpuTask) -> Mapping[str, str]:
    """How many processes torchrun starts for a rank: one for each device that the rank sees.

    A lone rank is told too, unless its `rendezvous` is `None`. Without cards nothing is said.
    """
    cards = task.spec.cards
    if cards is None or task.spec.rendezvous == "None":
        return {}
    return {"PET_NPROC_PER_NODE": str(count_devices(cards, task.spec.container))}


def count_devices(cards: TaskCards, container: TaskContainer) -> int:
    """How many devices a process of the rank sees.

    A tile of a card of gpu.intel.com is a device, unless ZE_FLAT_DEVICE_HIERARCHY is COMPOSITE: then a card
    is one (Level Zero's specification of the affinity mask). Where the task does not say how many tiles, each
    card counts as one: which cards it gets is not known yet.
    """
    given = {one.name: one.value for one in container.env}
    is_flat = given.get(_HIERARCHY) != "COMPOSITE"
    has_tiles = cards.resource.startswith(f"{PARTS_DOMAIN}/") and cards.tiles is not None
    return cards.tiles if has_tiles and is_flat and cards.tiles is not None else cards.cards
