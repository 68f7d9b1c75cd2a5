"""What is known of a pod's claims: the drivers' records on this node, and the API server."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelet.dra.errors import DraError, StateError
from accelet.dra.names import DRIVERS
from accelet.dra.preparing.cdi import file_name
from accelet.dra.preparing.checkpoint import LARGEST, read_checkpoint
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, AllocatedClaim, parse_claim
from accelet.dra.preparing.consumers import parse_consumer
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.explaining import ClaimExplanation, DriverSources, explain_claims
from accelet.dra.running.places import Places
from accelet.kube.client import Client
from accelet.kube.errors import KubeError, MalformedObjectError
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.runtime.statefile import read_whole

_LARGEST_CDI = 1 << 20


@dataclass(frozen=True)
class DriverRecord:
    """What one driver has on disk."""

    driver: str
    entries: tuple[Entry, ...]
    files: Mapping[tuple[str, str], str | None]


def _read_records(kubelet: Path, cdi: Path, notes: list[str]) -> list[DriverRecord]:
    """Of each driver, empty where it never prepared anything; what cannot be read is noted."""
    found = []
    for driver in DRIVERS:
        try:
            text = read_whole(Places(kubelet, cdi, driver, "").checkpoint, LARGEST)
            entries = () if text is None else read_checkpoint(text)
        except (OSError, StateError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            notes.append(f"What {driver} has prepared is not known: {reason}")
            continue
        files = {entry.key: _read_file(cdi / file_name(driver, entry.uid, entry.digest)) for entry in entries}
        found.append(DriverRecord(driver, entries, files))
    return found


def _read_file(path: Path) -> str | None:
    try:
        content = read_whole(path, _LARGEST_CDI)
    except OSError:
        return None
    return None if content is None else content.decode(errors="replace")


async def explain_pod_claims(
    client: Client, raw: RawObject, kubelet: Path, cdi: Path, notes: list[str]
) -> tuple[ClaimExplanation, ...]:
    """What a pod's containers have by claims, from its object; what cannot be read is noted."""
    try:
        pod, namespace = parse_consumer(raw), parse_pod(raw).namespace
    except (DraError, MalformedObjectError) as error:
        notes.append(f"What the pod has by claims is not known: {error}")
        return ()
    if not pod.uses:
        return ()
    claims = {}
    for name in dict.fromkeys(use.claim for use in pod.uses):
        try:
            claims[name] = await client.get(RESOURCE_CLAIMS, namespace, name)
        except KubeError as error:
            notes.append(f"The claim {name} cannot be read: {error}")
    records = await asyncio.to_thread(_read_records, kubelet, cdi, notes)
    return explain_claims(pod, namespace, [_join(record, claims) for record in records])


def _join(record: DriverRecord, claims: Mapping[str, RawObject]) -> DriverSources:
    """A driver's record beside the claims as they concern it."""
    parsed = {name: _parse(raw, record.driver) for name, raw in claims.items()}
    return DriverSources(record.driver, record.entries, record.files, parsed)


def _parse(raw: RawObject, driver: str) -> AllocatedClaim | None:
    try:
        return parse_claim(raw, driver)
    except DraError:
        return None
