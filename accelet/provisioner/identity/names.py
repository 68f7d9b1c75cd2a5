"""Annotations, variables and limits of the workers' identity, each with where it comes from."""

from typing import Final

INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The annotation by which Kubernetes numbers the pods of an Indexed Job."""

POD_INDEX: Final = "apps.kubernetes.io/pod-index"
"""The label by which Kubernetes numbers the pods of a StatefulSet."""

JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
"""Labels that JobSet puts on its pods: whose they are, and of which Job of their replicatedJob."""

LEADER_WORKER_SET: Final = "leaderworkerset.sigs.k8s.io/name"
"""The label of LeaderWorkerSet's pods, to which its own webhook gives an identity."""

APP: Final = "app.kubernetes.io/name"
KUBERAY: Final = "kuberay"

TPU_ENV: Final = "accelet.dev/tpu-env"
"""The annotation by which an author has all of this (`off`), or MEGASCALE_* (`single-slice`), left out."""
OFF: Final = "off"
SINGLE_SLICE: Final = "single-slice"

WORKERS: Final = "accelet.dev/tpu-workers"
"""Written on templates of Jobs and StatefulSets when they are made: how many workers a slice has."""
SLICES: Final = "accelet.dev/tpu-slices"
FIRST_SLICE: Final = "accelet.dev/tpu-first-slice"
COORDINATOR: Final = "accelet.dev/tpu-coordinator"
"""Written on the templates of JobSets: how many slices work together, the number of a replicatedJob's first,
and the replicatedJob whose first it is with the number 0."""

TPU: Final = "google.com/tpu"
WORKER_ID: Final = "TPU_WORKER_ID"
HOSTNAMES: Final = "TPU_WORKER_HOSTNAMES"
ADDRESSES: Final = "TPU_PROCESS_ADDRESSES"
PORT: Final = "TPU_PROCESS_PORT"
NUM_SLICES: Final = "MEGASCALE_NUM_SLICES"
SLICE_ID: Final = "MEGASCALE_SLICE_ID"
COORDINATOR_ADDRESS: Final = "MEGASCALE_COORDINATOR_ADDRESS"
MEGASCALE_PORT: Final = "MEGASCALE_PORT"

PROCESS_PORT: Final = "8476"
"""LeaderWorkerSet's, which says that GKE has the same (pull request 722)."""
SLICES_PORT: Final = "8080"
"""JobSet's multislice examples open it."""

UNSET: Final = ("", "localhost")
"""Values of TPU_WORKER_HOSTNAMES that name no other worker, and are replaced where there are some."""

LONGEST_VARIABLE: Final = 131_071
"""Bytes of NAME=value with which Linux starts a program: MAX_ARG_STRLEN without the byte that ends it."""

LONGEST_SHOWN: Final = 60
"""Characters of somebody's text in a sentence."""
