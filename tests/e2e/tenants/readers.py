"""Everything in accelet that reads objects of the API server, by their kind, and what it does then."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from accelet.control.leaserecord import parse_lease
from accelet.doctor.cluster import objects as examined
from accelet.dra.names import DRIVERS
from accelet.dra.preparing.claim import parse_claim, parse_held
from accelet.dra.preparing.consumers import parse_consumer
from accelet.dra.publishing.published import parse_published
from accelet.gputask.deciding.decide import decide as decide_task
from accelet.gputask.deciding.said import read_events
from accelet.gputask.deciding.status import status_of
from accelet.gputask.deciding.view import TaskTimes
from accelet.gputask.objects import jobs as task_jobs
from accelet.gputask.objects import pods as task_pods
from accelet.gputask.objects.manifests import job_body, service_body
from accelet.gputask.objects.task import parse_task
from accelet.gputask.original import NotConvertibleError, OriginalOptions, parse_original, refuse, render_task
from accelet.gputask.state import TaskState
from accelet.kinds.move import parse_move
from accelet.kube.barepod import parse_bare_pod
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.kube.writing.disruption import parse_budget, why_forbidden
from accelet.provisioner.bookings.booking import parse_booking
from accelet.provisioner.bookings.booking import status_of as status_of_booking
from accelet.provisioner.deciding.decide import decide as decide_slice
from accelet.provisioner.demand.owners import parse_job, parse_job_set
from accelet.provisioner.demand.requests import request_body
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.identity.worker import parse_worker_pod
from accelet.provisioner.identity.workloads import parse_worker_job, parse_worker_job_set, parse_worker_set
from accelet.provisioner.pools.pool import PoolList
from accelet.provisioner.providers.simulated.body import parse_pool
from accelet.provisioner.record import parse_request
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from accelet.scheduler.admission.kueue import parse_admission_check, parse_flavor, parse_kueue_workload
from accelet.scheduler.admission.placeholders import Placeholders, make_placeholders
from accelet.scheduler.admission.podsets import parse_pod_sets
from accelet.scheduler.admission.topologies import parse_topology
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.tasks import parse_terms
from accelet.scheduler.record import parse_record
from accelet.scheduler.state import SchedulerState

Reader = Callable[[RawObject], object]
_LATER_S: Final = 2e9


def _schedule(change: Callable[[SchedulerState, RawObject], object], raw: RawObject) -> None:
    """What a scheduler does of it that knows nothing else."""
    state = SchedulerState(Scheme(), GATE_PREFIX)
    change(state, raw)
    state.gangs()
    state.cluster.snapshot()


def _take_owner(kind: str, raw: RawObject) -> None:
    _schedule(lambda state, one: state.set_workload(parse_workload(one, kind)), raw)


def _convert(raw: RawObject) -> None:
    original = parse_original(raw)
    try:
        render_task(original, OriginalOptions())
    except NotConvertibleError as error:
        refuse(str(error))


def _pursue_task(raw: RawObject) -> None:
    state = TaskState(TaskTimes())
    task = parse_task(raw)
    state.set_task(task)
    view = state.view(task, _LATER_S)
    status_of(view, decide_task(view).record)
    job_body(task, 1, GATE_PREFIX, None)
    service_body(task)


def _pursue_slice(raw: RawObject) -> None:
    state = ProvisionerState(ProvisionerSettings(version="v1"), "pool")
    request = parse_request(raw)
    state.set_request(request)
    decide_slice(state.view(request, PoolList((), _LATER_S), _LATER_S))


def _move(raw: RawObject) -> None:
    """What either party does of it."""
    move, scheduler = parse_move(raw), SchedulerState(Scheme(), GATE_PREFIX)
    TaskState(TaskTimes()).set_move(move)
    book = MoveBook(scheduler)
    book.set_move(move)
    book.history(_LATER_S)
    scheduler.cluster.snapshot()


def _queue(raw: RawObject) -> None:
    """What is planned of a Workload before its pods are there."""
    workload, sets = parse_kueue_workload(raw), parse_pod_sets(raw)
    made = make_placeholders(workload, sets, {}, GATE_PREFIX)
    if isinstance(made, Placeholders):
        assert made.count == len(list(made.pods()))


def _book(raw: RawObject) -> None:
    booking = parse_booking(raw)
    status_of_booking(booking, {"Accepted": (True, "x", "")}, "set", _LATER_S)


def _disrupt(raw: RawObject) -> None:
    budget = parse_budget(raw)
    why_forbidden(budget.namespace, [{"a": "b"}, {}], [budget, budget])


def _derive(parse: Callable[[RawObject], object], raw: RawObject) -> None:
    for wanted in derive_slices(parse(raw)).slices:  # type: ignore[arg-type]
        request_body(wanted)


_OWNERS = ("LeaderWorkerSet", "PyTorchJob", "MPIJob", "RayCluster", "SparkApplication", "PodGroup")
READERS: Final[Mapping[str, Sequence[Reader]]] = {
    "Pod": (
        partial(_schedule, lambda state, raw: state.set_pod(parse_pod(raw, keeps_environment=False))),
        parse_pod,
        parse_bare_pod,
        parse_worker_pod,
        parse_consumer,
        task_pods.parse_pod,
        examined.read_pod,
    ),
    "Job": (
        partial(_schedule, lambda state, raw: state.set_workload(parse_workload(raw, "Job"))),
        partial(_derive, parse_job),
        parse_worker_job,
        task_jobs.parse_job,
    ),
    "JobSet": (
        partial(_schedule, lambda state, raw: state.set_workload(parse_workload(raw, "JobSet"))),
        partial(_derive, parse_job_set),
        parse_worker_job_set,
    ),
    "StatefulSet": (parse_worker_set,),
    "Service": (task_jobs.parse_service,),
    "Node": (
        partial(_schedule, lambda state, raw: state.set_node(parse_node(raw))),
        examined.read_machine,
    ),
    "ConfigMap": (
        partial(_schedule, lambda state, raw: state.set_record(parse_record(raw))),
        parse_pool,
        examined.read_config_text,
    ),
    "GPUTask": (_pursue_task, parse_terms),
    "OriginalTask": (_convert,),
    "Move": (_move,),
    "PodDisruptionBudget": (_disrupt,),
    "Workload": (_queue,),
    "AdmissionCheck": (parse_admission_check,),
    "ResourceFlavor": (parse_flavor,),
    "Topology": (parse_topology,),
    "ProvisioningRequest": (_book,),
    "SliceRequest": (_pursue_slice,),
    "ResourceClaim": tuple(
        partial(parse, driver=driver) for parse in (parse_claim, parse_held) for driver in DRIVERS
    ),
    "Lease": (parse_lease, examined.read_lease),
    "Event": (examined.read_event, lambda raw: read_events([raw], "u", _LATER_S, 1.0)),
    "ResourceSlice": (parse_published,),
    **{kind: (partial(_take_owner, kind),) for kind in _OWNERS},
}
