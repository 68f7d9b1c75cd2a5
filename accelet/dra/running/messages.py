"""The kubelet's DRA messages to our values and back; v1 and v1beta1 differ in the share's id alone."""

from collections.abc import Iterable, Mapping, Sequence

from accelet.accelerators.device import HEALTHY, UnitId, worst
from accelet.accelerators.device import Health as DeviceHealth
from accelet.dra.errors import DraError
from accelet.dra.pool import DevicePool, PoolDevice
from accelet.dra.publishing.taints import LOST, UNHEALTHY
from accelet.dra.running.changes import Prepared
from accelet.dra.running.claimreader import ClaimRef
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import dra_v1beta1_pb2 as v1beta1
from accelet.kubelet.api import drahealth_v1_pb2 as health_v1
from accelet.kubelet.api import drahealth_v1alpha1_pb2 as health_v1alpha1

LONGEST_ERROR = 1024
HEALTH_TIMEOUT_S = 30

Health = tuple[str, str, int, str]

PrepareRequest = v1.NodePrepareResourcesRequest | v1beta1.NodePrepareResourcesRequest
UnprepareRequest = v1.NodeUnprepareResourcesRequest | v1beta1.NodeUnprepareResourcesRequest


def refs_of(request: PrepareRequest | UnprepareRequest) -> tuple[ClaimRef, ...]:
    """The claims of a request, each once."""
    refs = (ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims)
    return tuple(dict.fromkeys(refs))


def prepared_v1(outcomes: Mapping[str, Prepared]) -> v1.NodePrepareResourcesResponse:
    response = v1.NodePrepareResourcesResponse()
    for uid, outcome in outcomes.items():
        entry = response.claims[uid]
        entry.SetInParent()
        if isinstance(outcome, DraError):
            entry.error = str(outcome)[:LONGEST_ERROR]
            continue
        for answer in outcome:
            entry.devices.add(
                request_names=answer.requests,
                pool_name=answer.pool,
                device_name=answer.device,
                cdi_device_ids=answer.cdi_ids,
                share_id=answer.share,
            )
    return response


def prepared_v1beta1(outcomes: Mapping[str, Prepared]) -> v1beta1.NodePrepareResourcesResponse:
    response = v1beta1.NodePrepareResourcesResponse()
    for uid, outcome in outcomes.items():
        entry = response.claims[uid]
        entry.SetInParent()
        if isinstance(outcome, DraError):
            entry.error = str(outcome)[:LONGEST_ERROR]
            continue
        for answer in outcome:
            entry.devices.add(
                request_names=answer.requests,
                pool_name=answer.pool,
                device_name=answer.device,
                cdi_device_ids=answer.cdi_ids,
            )
    return response


def unprepared_v1(outcomes: Mapping[str, DraError | None]) -> v1.NodeUnprepareResourcesResponse:
    response = v1.NodeUnprepareResourcesResponse()
    for uid, error in outcomes.items():
        response.claims[uid].error = "" if error is None else str(error)[:LONGEST_ERROR]
    return response


def unprepared_v1beta1(outcomes: Mapping[str, DraError | None]) -> v1beta1.NodeUnprepareResourcesResponse:
    response = v1beta1.NodeUnprepareResourcesResponse()
    for uid, error in outcomes.items():
        response.claims[uid].error = "" if error is None else str(error)[:LONGEST_ERROR]
    return response


def health_of(pool: DevicePool, units: Mapping[UnitId, DeviceHealth]) -> Sequence[Health]:
    """Pool, device, health by the protocol's number, and message, of every device; `units` by their health.

    Who holds a device is nothing about its health.
    """
    return [(pool.node, device.name, *_health(device, units)) for device in pool.devices]


def _health(device: PoolDevice, units: Mapping[UnitId, DeviceHealth]) -> tuple[int, str]:
    keys = [taint.key for taint in device.taints if taint.key in (UNHEALTHY, LOST)]
    if not keys:
        return health_v1.HEALTHY, ""
    is_unknown = worst(units.get(unit, HEALTHY) for unit in device.units).is_unknown
    return (health_v1.UNKNOWN, "unknown") if is_unknown else (health_v1.UNHEALTHY, ", ".join(keys))


def health_response_v1(told: Iterable[Health]) -> health_v1.NodeWatchResourcesResponse:
    response = health_v1.NodeWatchResourcesResponse()
    for pool, device, health, message in told:
        one = response.devices.add(
            health=health_v1.HealthStatus.ValueType(health),
            health_check_timeout_seconds=HEALTH_TIMEOUT_S,
            message=message,
        )
        one.device.pool_name, one.device.device_name = pool, device
    return response


def health_response_v1alpha1(
    told: Iterable[Health],
) -> health_v1alpha1.NodeWatchResourcesResponse:
    encoded = health_response_v1(told).SerializeToString()
    return health_v1alpha1.NodeWatchResourcesResponse.FromString(encoded)
