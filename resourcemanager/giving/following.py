"""One request whose container is known, or is not, against its assignment and the policies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import DeviceId
from accelet.accelerators.intel.edits import HIERARCHY, MASK
from accelet.assignments.assignment import AssignmentError, Pieces
from accelet.assignments.nodecards import capacity_names
from accelet.kube.objects import NO_AMOUNTS
from accelet.runtime.excerpts import printable
from resourcemanager.allocation import NOTHING_KNOWN, WHOLE, Allocation, Notice, Refusal
from resourcemanager.giving.advice import advise
from resourcemanager.giving.conflicts import assigned_parts, find_conflict, whole_parts
from resourcemanager.giving.policies import Policies
from resourcemanager.matching.inquiry import Match, NoProof
from resourcemanager.surroundings import Surroundings
from resourcemanager.target import count_tiles, describe, explain_misfit, find_target

Give = Callable[[Tiles, Mapping[str, str]], Allocation | Refusal]
"""Gives the requested devices, restricted to tiles, to a container with this environment of its own."""

GiveWhole = Callable[[], Allocation | Refusal]
"""Gives the requested devices as they are."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the devices the kubelet chose, and for whom, or why that is not known."""

    devices: Sequence[DeviceId]
    found: Match | NoProof


def follow(
    request: Request, give: Give, policies: Policies, surroundings: Surroundings
) -> Allocation | Refusal:
    """Gives a container exactly the cards and tiles it is assigned, or says why not."""
    found, give_whole = request.found, partial(_give_whole, request, give, policies, surroundings)
    if isinstance(found, NoProof) or not found.proof.is_exact:
        return _without_proof(found, give_whole, policies)
    try:
        pieces = _read(found, surroundings)
        if not pieces:
            return _without_assignment(found, give_whole, policies, surroundings.resource)
        _check_tiles(found, pieces, surroundings)
        target = find_target(pieces, surroundings.inventory, len(set(request.devices)), surroundings.resource)
    except AssignmentError as error:
        return Refusal("bad-assignment", f"container {found.owner.container}: {error}")
    if misfit := explain_misfit(target, request.devices):
        advice = advise(found, target, request.devices, surroundings)
        return _with_misfit(misfit, advice, found, give_whole, policies)
    parts = assigned_parts(pieces, surroundings.inventory)
    taken = find_conflict(parts, found.owner.pod_uid, surroundings)
    said = f"container {found.owner.container}: {taken}"
    if taken and policies.on_conflict == "refuse":
        return Refusal("conflict", f"{said}; have the scheduler choose another card for it")
    notices = [Notice("conflict", said)] if taken else []
    return _explain(_give(found, give, target.tiles), f"assigned {target.text}", notices)


def _give_whole(
    request: Request, give: Give, policies: Policies, surroundings: Surroundings
) -> Allocation | Refusal:
    """Gives what the kubelet chose, whole; where tiles of it are assigned to others, as the policy says."""
    found = request.found
    known = found if isinstance(found, Match) and found.proof.is_exact else None
    parts = whole_parts(request.devices, surroundings.inventory)
    taken = find_conflict(parts, known.owner.pod_uid if known else None, surroundings)
    said = f"container {known.owner.container}: {taken}" if known else f"{taken}"
    if taken and policies.on_conflict == "refuse":
        return Refusal("conflict", f"{said}; have a scheduler that writes assignments choose a card for it")
    given = _give(known, give, WHOLE) if known else give(WHOLE, NOTHING_KNOWN)
    return _explain(given, "", [Notice("conflict", said)] if taken else [])


def _with_misfit(
    misfit: str, advice: str, found: Match, give_whole: GiveWhole, policies: Policies
) -> Allocation | Refusal:
    sentence = f"container {found.owner.container}: {misfit}"
    if policies.on_mismatch == "strict":
        return Refusal("mismatch", f"{sentence}; {advice}")
    said = Notice("mismatch", f"{sentence}; it was given what the kubelet chose, whole")
    reason = "the kubelet chose other devices than those assigned"
    return _explain(give_whole(), reason, [said])


def _read(found: Match, surroundings: Surroundings) -> Pieces | None:
    assignment = surroundings.assignments.of(found.pod)
    return None if assignment is None else assignment.pieces(found.owner.container, surroundings.resource)


def _check_tiles(found: Match, pieces: Pieces, surroundings: Surroundings) -> None:
    """Holds an assignment to what its container requests, which quotas count.

    Where a container requests no tiles, GPU Aware Scheduling or an administrator has said what it gets.

    Raises:
        AssignmentError: it is assigned more tiles than it requests, or fewer.
    """
    name, *_ = capacity_names(surroundings.resource)
    mine = (one.requests for one in found.pod.all_containers if one.name == found.owner.container)
    requested = next(mine, NO_AMOUNTS).get(name, 0)
    assigned = count_tiles(pieces, surroundings.inventory)
    if requested and requested != assigned:
        raise AssignmentError(
            f"It is assigned {assigned} tiles ({describe(pieces)}) and requests {printable(str(requested))}"
            f" {name}; it has to be assigned as many as it requests."
        )


def _give(found: Match, give: Give, tiles: Tiles) -> Allocation | Refusal:
    """Gives the devices; not with a mask whose meaning depends on a variable that nobody here can read."""
    given = give(tiles, _environment(found))
    if isinstance(given, Refusal) or MASK not in given.edits.environment:
        return given
    name = found.owner.container
    referred = (one.referred_environment for one in found.pod.all_containers if one.name == name)
    if HIERARCHY not in next(referred, frozenset()):
        return given
    return Refusal(
        "unread-environment",
        f"container {name} takes {HIERARCHY} from elsewhere (valueFrom), so it cannot be told what a mask of"
        " its tiles would mean there; write the value in the pod",
    )


def _environment(found: Match) -> Mapping[str, str]:
    """The container's own literal environment, which wins over ours in the kubelet."""
    own = (one.environment for one in found.pod.all_containers if one.name == found.owner.container)
    return next(own, NOTHING_KNOWN)


def _without_proof(found: Match | NoProof, give_whole: GiveWhole, policies: Policies) -> Allocation | Refusal:
    if isinstance(found, NoProof):
        code, reason = f"unproven-{found.doubt.value}", found.reason
    else:
        pod = "/".join(found.pod.key)
        code, reason = "unproven-inexact", f"The call is probably for pod {pod}, which is not proven."
    if policies.on_unproven == "refuse":
        return Refusal(code, f"it cannot be told which container this call is for: {reason}")
    return _explain(give_whole(), reason, [Notice("unproven", reason)])


def _without_assignment(
    found: Match, give_whole: GiveWhole, policies: Policies, resource: str
) -> Allocation | Refusal:
    if policies.on_missing == "refuse":
        return Refusal(
            "not-assigned",
            f"container {found.owner.container} requests {resource}, and no annotation of its pod assigns it"
            " any; have the pod scheduled by who writes assignments",
        )
    return _explain(give_whole(), "nothing is assigned to it", [])


def _explain(given: Allocation | Refusal, reason: str, notices: Iterable[Notice]) -> Allocation | Refusal:
    if isinstance(given, Refusal):
        return given
    return replace(given, reason=reason, notices=(*notices, *given.notices))
