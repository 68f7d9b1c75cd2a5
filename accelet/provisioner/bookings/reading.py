"""Reads what a booking refers to: the queue's Workload, and the PodTemplates of its pods."""

from typing import Final

import msgspec

from accelet.kube.apiresources import ApiResource, ObjectApi
from accelet.kube.objects import Wire, WireObject, read_object
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.provisioner.bookings.booking import Booking
from accelet.provisioner.demand.requests import BOOKED_KINDS
from accelet.provisioner.pools.machines import Refusal

_POD_TEMPLATES: Final = ApiResource("PodTemplate", "podtemplates")


class _WirePods(Wire, frozen=True):
    spec: dict[str, object]
    metadata: dict[str, object] | None = None


class _WirePodTemplate(WireObject, frozen=True):
    template: _WirePods


class BookingReader:
    """Every method raises KubeError, NotFoundError among them, and MalformedObjectError."""

    def __init__(self, api: ObjectApi) -> None:
        self._api = api

    async def find_owner(self, booking: Booking) -> tuple[str, str, str] | Refusal | None:
        """Kind, name and UID of the JobSet or Job that waits in a queue for the booking.

        None where the booking's Workload is another one by now: the booking goes with the former.
        """
        workload = booking.workload
        if workload is None:
            return Refusal("it is no Workload's of Kueue: this class is for JobSets and Jobs in a queue")
        resource = ApiResource("Workload", "workloads", "kueue.x-k8s.io", workload.version)
        raw = await self._api.get(resource, booking.namespace, workload.name)
        metadata = read_object(msgspec.Raw(raw), "Workload", WireObject).metadata
        if metadata.uid != workload.uid:
            return None
        for owner in metadata.owner_references or ():
            if owner.controller and owner.kind in BOOKED_KINDS:
                return owner.kind, owner.name, owner.uid
        return Refusal("its Workload is of no JobSet and no Job; slices are made for these alone")

    async def read_pods(self, booking: Booking) -> list[tuple[int, Pod]]:
        """How many pods are booked of each kind, in the booking's order."""
        found = []
        for one in booking.pods:
            raw = await self._api.get(_POD_TEMPLATES, booking.namespace, one.template)
            template = read_object(msgspec.Raw(raw), "PodTemplate", _WirePodTemplate).template
            metadata = {"annotations": (template.metadata or {}).get("annotations")}
            pod = {"metadata": {"name": one.template, "namespace": booking.namespace, **metadata}}
            found.append((one.count, parse_pod(pod | {"spec": template.spec})))
        return found
