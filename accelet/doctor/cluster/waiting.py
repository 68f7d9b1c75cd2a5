"""Judges the pods that wait: for names that nobody offers, behind taints, for a scheduler, for room."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from accelet.doctor.cluster.seen import ClusterSeen, PodSeen
from accelet.doctor.findings import MOST_FINDINGS, Finding, Verdict, judge, quoted, several
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.eligibility import barrier_text, barriers, first_barrier, is_selected
from accelet.scheduler.gangs.grouping import GATE_PREFIX, is_ours

WAITING_S = 120.0
"""So long a pod may wait without a word: a scheduler has other things to do."""

MOST_NAMES = 8

NOT_READY = "not ready"
"""What is the matter with nodes is told of nodes."""

MOST_JUDGED = 500
"""Of pods, oldest first, whose taints are compared with all nodes'."""


def judge_pods(seen: ClusterSeen) -> Sequence[Verdict]:
    waiting = [one for one in seen.pods if is_waiting(one.pod)]
    waiting.sort(key=lambda one: one.pod.created_s)
    fine = f"{several(len(waiting), 'pod')} wait; each asks for what some node offers" if waiting else ""
    return (
        judge("resource-names", fine or "no pod waits", _unknown_names(waiting, seen)),
        judge("taints", "", _behind_taints(waiting, seen)),
        judge("gates", "", _held(waiting, seen)),
        judge("waiting", "", _waiting(waiting, seen)),
        judge("admission", "", _refused(seen.pods)),
    )


def is_waiting(pod: Pod) -> bool:
    return pod.node_name is None and pod.deleted_s is None and not pod.is_terminal


def extended_resources(pod: Pod) -> list[str]:
    """What the pod asks for of names with a domain, by name."""
    claimed = {name for _, name in pod.claimed_resources}
    asked = {
        name for one in pod.all_containers for name, amount in one.requests.items() if "/" in name and amount
    }
    return sorted(asked - claimed)


def _about(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _unknown_names(waiting: Sequence[PodSeen], seen: ClusterSeen) -> Iterator[Finding]:
    offered = {name for one in seen.machines for name, amount in one.node.allocatable.items() if amount}
    offered |= seen.offered
    known = sorted(name for name in offered if "/" in name)
    asking: defaultdict[str, list[str]] = defaultdict(list)
    for one in waiting:
        for name in extended_resources(one.pod):
            if name not in offered:
                asking[name].append(_about(one.pod))
    for rank, (name, pods) in enumerate(sorted(asking.items())):
        # To compare names takes its time, and tenants choose how many there are.
        close = get_close_matches(name, known, 1) if rank < MOST_FINDINGS else []
        meant = f"Did they mean {close[0]}? " if close else ""
        reason = f"{several(len(pods), 'pod')} ask for it, {pods[0]} first, and no node offers it"
        cure = f"{meant}`kubectl get nodes -o json` says under status.allocatable what nodes offer."
        yield Finding("wrong", name, reason, cure)


def _behind_taints(waiting: Sequence[PodSeen], seen: ClusterSeen) -> Iterator[Finding]:
    """Pods whose resources are offered, and by no node that they tolerate."""
    for one in waiting[:MOST_JUDGED]:
        pod, tolerations = one.pod, frozenset(one.pod.tolerations)
        for name in extended_resources(pod)[:MOST_NAMES]:
            offering = [each.node for each in seen.machines if each.node.allocatable.get(name)]
            chosen = [
                node for node in offering if is_selected(node, pod.node_selector.items(), pod.required_terms)
            ]
            if offering and not chosen:
                reason = f"no node that its nodeSelector and node affinity choose offers {name}"
                cure = "Compare them with the labels: kubectl get nodes --show-labels"
                yield Finding("wrong", _about(pod), reason, cure)
                break
            kept = [first_barrier(barriers(node), tolerations) for node in chosen]
            said = {barrier_text(barrier) for barrier in kept if barrier is not None} - {NOT_READY}
            if said and None not in kept:
                reason = f"every node that offers {name} keeps it away"
                cure = "Give the pod a toleration, or the node back: kubectl taint or kubectl uncordon."
                yield Finding(
                    "wrong", _about(pod), reason, cure, quoted("; ".join(sorted(said)[:MOST_NAMES]))
                )
                break


def _held(waiting: Sequence[PodSeen], seen: ClusterSeen) -> Iterator[Finding]:
    schedulers = seen.of("scheduler")
    if schedulers or "deployments" in seen.unseen:
        return
    for one in waiting:
        if any(is_ours(gate, GATE_PREFIX) for gate in one.pod.gates):
            cure = (
                "Install the scheduler (docs/scheduler.md), or delete the pod and make it without the gate."
            )
            reason = "a gate holds it that accelet's scheduler would lift, and there is none here"
            yield Finding("wrong", _about(one.pod), reason, cure)


def _waiting(waiting: Sequence[PodSeen], seen: ClusterSeen) -> Iterator[Finding]:
    for one in waiting:
        waits_s = seen.now_s - one.pod.created_s
        is_relevant = bool(extended_resources(one.pod)) or any(
            is_ours(gate, GATE_PREFIX) for gate in one.pod.gates
        )
        if waits_s < WAITING_S or not is_relevant:
            continue
        said = seen.waiting.get(_about(one.pod), "") or one.unscheduled
        cure = "`accelet plan` and `accelet cards` say what is free, and who has the rest."
        yield Finding(
            "note", _about(one.pod), f"it has waited for {waits_s / 60:,.0f} min", cure, quoted(said)
        )


def _refused(pods: Sequence[PodSeen]) -> Iterator[Finding]:
    for one in pods:
        if one.reason == "UnexpectedAdmissionError":
            cure = f"Delete it: kubectl -n {one.pod.namespace} delete pod {one.pod.name}"
            yield Finding(
                "note",
                _about(one.pod),
                "its kubelet could not give it its devices",
                cure,
                quoted(one.message),
            )
