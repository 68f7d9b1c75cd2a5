"""Finds the container a call is for where podresources also shows pods that were turned away."""

from dataclasses import replace

from accelet.kube.objects import ObjectKey
from resourcemanager.matching.doubts import (
    accept_single,
    doubt_api_server,
    doubt_former,
    doubt_namesakes,
    doubt_stranger,
)
from resourcemanager.matching.inquiry import (
    AskAllShown,
    AskShown,
    CallFacts,
    Podresources,
    Proof,
    ReadPods,
    Step,
)
from resourcemanager.matching.openings import find_former_openings, find_openings, list_living

_REREADS_S = (0.05, 0.15, 0.4)
"""How long the API server may take to learn that a pod was turned away, before it is a matter of seconds."""


def exclude_others(evidence: CallFacts) -> Step:
    """The only container that lacks devices of this number, among all pods there are."""
    return _look(evidence) or _weigh(evidence)


def _look(evidence: CallFacts) -> Step | None:
    if evidence.podresources is Podresources.LIST_ALL and not evidence.is_all_shown:
        return AskAllShown()
    if evidence.reads == 0:
        return ReadPods(after_s=0) if evidence.can_read else doubt_api_server()
    if not evidence.is_all_shown:
        for pod in list_living(evidence, with_former=True):
            if pod.key not in evidence.shown:
                return AskShown(pod.key)
    return None


def _weigh(evidence: CallFacts) -> Step:
    proof = Proof.SOLE if evidence.is_all_shown else Proof.EXCLUSION
    found = [
        match
        for pod in list_living(evidence, with_former=True)
        for match in find_openings(pod, proof, evidence)
    ]
    if all(match.owner.pod_uid not in evidence.pods for match in found):
        found = []  # a pod that is gone is never proven to be the one
    former = [one for match in found for one in find_former_openings(match.pod, evidence)]
    if former:
        doubt = doubt_former(found[0].pod, former)
        # Who is turned away is known only where none of another name can be meant.
        return doubt if len({one.pod.key for one in (*found, *former)}) == 1 else replace(doubt, former=None)
    if evidence.shown_twice:
        return doubt_namesakes(min(evidence.shown_twice), evidence)
    strangers = _strangers(evidence)
    is_open = len({match.owner.pod_uid for match in found}) > 1 or bool(strangers)
    if is_open and evidence.can_read and evidence.reads <= len(_REREADS_S):
        return ReadPods(after_s=_REREADS_S[evidence.reads - 1])
    return doubt_stranger(strangers[0]) if strangers else accept_single(found, evidence)


def _strangers(evidence: CallFacts) -> list[ObjectKey]:
    """Pods the kubelet shows, in part at least without devices, of which nothing else is known."""
    known = {pod.key for pod in (*evidence.pods.values(), *evidence.deleted.values())}
    return [
        name
        for name, shown in evidence.shown.items()
        if shown is not None
        and name not in known
        and not all(container.devices.get(evidence.ledger.resource) for container in shown.containers)
    ]
