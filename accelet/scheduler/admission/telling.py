"""Reads Workloads, and writes what our checks say of them, and that we evaluate these."""

from datetime import UTC, datetime

import msgspec

from accelet.control.status import status_patch
from accelet.control.writer import FencedWriter
from accelet.kube.errors import ConflictError, InvalidError, NotFoundError
from accelet.kube.objects import ObjectKey
from accelet.kube.writing.conditions import StatusCondition, set_conditions
from accelet.scheduler.admission.book import AdmissionBook
from accelet.scheduler.admission.judging import Told, check_patch
from accelet.scheduler.admission.kueue import (
    ADMISSION_CHECKS,
    WORKLOADS,
    AdmissionCheck,
    KueueWorkload,
    parse_kueue_workload,
)
from accelet.scheduler.admission.podsets import PodSet, parse_pod_sets


class AdmissionWriter:
    """Acts on the API server, and tells the book at once what came of it.

    Every method raises KubeError, and those that write NotLeadingError once that is so.
    """

    def __init__(self, writer: FencedWriter, book: AdmissionBook) -> None:
        self._writer, self._book = writer, book

    async def read_pod_sets(self, key: ObjectKey) -> tuple[PodSet, ...]:
        """
        Raises:
            MalformedObjectError: what the Workload says of its pods cannot be read.
        """
        return parse_pod_sets(msgspec.Raw(await self._writer.get(WORKLOADS, *key)))

    async def tell(self, workload: KueueWorkload, checks: frozenset[str], told: Told) -> bool:
        """Has these checks say it; False where the Workload has changed meanwhile."""
        patch = check_patch(workload, checks, told, _now())
        if not patch:
            return True
        try:
            raw = await self._writer.patch(WORKLOADS, *workload.key, patch, "json", subresource="status")
        except NotFoundError:
            return True
        except (ConflictError, InvalidError):
            return False
        self._book.renew(parse_kueue_workload(msgspec.Raw(raw)))
        return True

    async def activate(self, check: AdmissionCheck) -> bool:
        """Says of a check of ours whether we evaluate it; False where it has changed meanwhile."""
        after = set_conditions(check.conditions, [_active(check)], _now())
        before = {"conditions": [one.to_body() for one in check.conditions]}
        said = {"conditions": [one.to_body() for one in after]}
        patch = status_patch(before, said, check.resource_version)
        if patch is None:
            return True
        try:
            await self._writer.patch(ADMISSION_CHECKS, None, check.name, patch, "merge", subresource="status")
        except NotFoundError:
            return True
        except ConflictError:
            return False
        return True


def _active(check: AdmissionCheck) -> StatusCondition:
    if check.has_parameters:
        message = "this check takes no parameters: make one anew without spec.parameters"
        return StatusCondition("Active", "False", "BadParameters", message, check.generation)
    message = "accelet's scheduler looks for places before Workloads are admitted"
    return StatusCondition("Active", "True", "Active", message, check.generation)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
