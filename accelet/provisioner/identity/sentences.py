"""What authors are told, once for the pure functions and for the policies: `{…}` are filled in by both."""

from typing import Final

ACCELERATOR: Final = (
    "{accelerator} is no TPU that is sold under cloud.google.com/gke-tpu-accelerator; known are {known}"
)
TOPOLOGY: Final = "{accelerator} has no topology {topology}; it has {topologies}"
CHIPS: Final = (
    "{accelerator} {topology} has machines of {sizes}; "
    "a pod must ask for all of a machine's google.com/tpu, not for {chips}"
)
CONTAINERS: Final = (
    "the chips of a host in a larger slice go to one container, and {containers} of the pod's ask for some"
)
NOT_INDEXED: Final = "the workers of a slice need numbers: set completionMode: Indexed"
PODS: Final = "{topology} with {chips} a pod needs {needed}, the {kind} has {pods}"
PARALLELISM: Final = (
    "all {pods} workers of a slice run together: parallelism must be {pods} as completions is, "
    "not {parallelism}"
)
NAMELESS: Final = (
    "the workers of a slice find each other by their names in DNS: set {field}, to a headless Service's name"
)
HIDDEN: Final = (
    "the workers of a slice find each other by their names in DNS: leave spec.network.enableDNSHostnames true"
)
ALONE: Final = (
    "{topology} with {chips} a pod needs {needed} that know of each other: "
    "make an Indexed Job, a JobSet or a StatefulSet of them"
)
STALE: Final = "the workers' names were made for {workers} pods, not for {completions}: make a new Job"
NUMBER: Final = "there is no worker {index} of {pods}"
HOSTNAME: Final = "a worker's hostname must be {wanted}, not {hostname}: leave it out of the template"
TOO_LONG: Final = (
    "{name} has {bytes} bytes with its name, and a program can be started with at most 131071 in a variable: "
    "shorten the names of the Job and its Service"
)

UNCHECKED: Final = (
    "the pods ask for google.com/tpu and do not select {missing}: "
    "whether their number is right is not checked"
)
HALF: Final = (
    "TPU_WORKER_ID and TPU_WORKER_HOSTNAMES belong together: a container sets one of them, "
    "and both are left as they are"
)
UNLIKE: Final = (
    "MEGASCALE_* is not set: the TPU slices of a group work together only where all are of the same "
    "accelerator, topology and chips a pod, and of several hosts"
)
