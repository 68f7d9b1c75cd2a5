"""What a pod's containers have by claims, and whether all who speak of it agree."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from accelet.dra.preparing.claim import AllocatedClaim
from accelet.dra.preparing.consumers import WHOLE, ClaimUse, ConsumerPod
from accelet.dra.preparing.entry import Entry, PreparedDevice


@dataclass(frozen=True, slots=True)
class ClaimExplanation:
    """What one container has by one claim of one driver.

    `requests` are those it names, none where it uses the claim as a whole. `devices` and `environment` are
    what the driver gave for them. `reason` says whether all agree, or who differs and how.
    """

    container: str
    claim: str
    driver: str
    requests: tuple[str, ...]
    devices: tuple[str, ...]
    environment: Mapping[str, str]
    agrees: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DriverSources:
    """What is known of one driver's claims: its record, and the claims as the API server has them, by name.

    `files` has the content of the CDI file of each entry's key, None where there is none. A claim that is
    None could not be read.
    """

    driver: str
    entries: Collection[Entry]
    files: Mapping[tuple[str, str], str | None]
    claims: Mapping[str, AllocatedClaim | None]


def explain_claims(
    pod: ConsumerPod, namespace: str, sources: Collection[DriverSources]
) -> tuple[ClaimExplanation, ...]:
    """A line for each container, claim and driver that has to do with one another."""
    return tuple(
        line for use in pod.uses for source in sources for line in _explain(use, namespace, source, pod.uid)
    )


def _explain(use: ClaimUse, namespace: str, source: DriverSources, uid: str) -> Iterator[ClaimExplanation]:
    claim = source.claims.get(use.claim)
    mine = [entry for entry in source.entries if (entry.namespace, entry.name) == (namespace, use.claim)]
    if claim is not None:
        mine = [entry for entry in mine if entry.uid == claim.uid]
    if not mine and (claim is None or not claim.results):
        return
    entry = next((one for one in mine if claim is not None and one.digest == claim.digest), None)
    entry = entry or next(iter(mine), None)
    given = [] if entry is None else [one for one in entry.answers if _is_for(one, use)]
    problems = list(_find_problems(claim, entry, source, uid))
    yield ClaimExplanation(
        container=use.container,
        claim=use.claim,
        driver=source.driver,
        requests=tuple(sorted(one for one in use.requests if one is not WHOLE)),
        devices=tuple(dict.fromkeys(one.device for one in given)),
        environment={} if entry is None else _environment(entry, given),
        agrees=not problems,
        reason="; ".join(problems) or "allocation, record and CDI file agree",
    )


def _is_for(answer: PreparedDevice, use: ClaimUse) -> bool:
    """As the kubelet chooses: a container that names no request gets all, and what is for the whole."""
    return WHOLE in use.requests or bool(set(answer.requests) & use.requests)


def _find_problems(
    claim: AllocatedClaim | None, entry: Entry | None, source: DriverSources, uid: str
) -> Iterator[str]:
    if claim is None:
        yield "the claim cannot be read at the API server"
    elif uid not in {consumer.uid for consumer in claim.consumers}:
        yield "the claim is not reserved for this pod"
    if entry is None:
        yield "it is allocated, and not prepared on this node"
        return
    if claim is not None and entry.digest != claim.digest:
        yield "what is prepared is an earlier allocation of the claim"
    if entry.phase != "completed":
        yield "its preparing was begun, and not completed"
    file = source.files.get(entry.key)
    if file != entry.cdi:
        yield "its CDI file is missing" if file is None else "its CDI file was changed"


def _environment(entry: Entry, given: Collection[PreparedDevice]) -> Mapping[str, str]:
    """What the runtime sets, of the devices in their order: the last one wins."""
    document = msgspec.json.decode(entry.cdi)
    by_id = {f"{document['kind']}={one['name']}": one["containerEdits"] for one in document["devices"]}
    ids = [one for answer in given for one in answer.cdi_ids]
    lines = [line for one in dict.fromkeys(ids) for line in by_id.get(one, {}).get("env", ())]
    return dict(line.split("=", 1) for line in lines)
