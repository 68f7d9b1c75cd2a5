"""Judges the admission policies: that each there should be is there, bound, and refuses."""

import re
from collections.abc import Iterator, Sequence

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard, NodeCardsError, parse_node_cards
from accelet.doctor.cluster.seen import ClusterSeen, NodeMachine
from accelet.doctor.findings import Finding, Verdict, judge, several

OWN = re.compile(r"accelet-[a-z0-9-]{1,60}")
"""Names of our policies. Others' policies are others' concern."""

VALIDATING, MUTATING = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"

SCHEDULER = ("accelet-scheduler", "accelet-scheduler-plans", "accelet-scheduler-jobs")
SHARING = ("accelet-assignments", "accelet-plans", "accelet-requests")
CARDS = ("accelet-agent-cards",)
PROVISIONER = ("accelet-provisioner-nodes",)
GATE = "accelet-gate"

_LISTED = (
    "by cards.resources of the chart, or a patch (docs/sharing.md, Which card is added). "
    "For single namespaces, set the label accelet.dev/default-card."
)

_CURES = {
    **dict.fromkeys(SCHEDULER, "deploy/scheduler.yaml"),
    **dict.fromkeys((*SHARING, GATE), "deploy/policies"),
    **dict.fromkeys(CARDS, "deploy/agent-cards"),
    **dict.fromkeys(PROVISIONER, "deploy/provisioner"),
}


def judge_policies(seen: ClusterSeen) -> Sequence[Verdict]:
    ours = [policy for policy in seen.policies if OWN.fullmatch(policy.name)]
    fine = f"{several(len(ours), 'policy', 'policies')} of ours, bound and refusing" if ours else ""
    return (judge("policies", fine, (*_missing(seen), *_weak(seen), *_unlisted(seen))),)


def expected(seen: ClusterSeen) -> Iterator[str]:
    """The policies that belong to what is installed."""
    publishes = any(config.publishes_cards for config in seen.configs)
    if seen.of("scheduler"):
        yield from SCHEDULER
        yield from SHARING if publishes else ()
    yield from CARDS if publishes else ()
    yield from PROVISIONER if seen.of("provisioner") else ()


def _missing(seen: ClusterSeen) -> Iterator[Finding]:
    if "validatingadmissionpolicies" in seen.unseen:
        return
    there = {policy.name for policy in seen.policies}
    for name in expected(seen):
        if name not in there:
            reason = "this policy is missing: what it forbids is allowed to everybody with the right"
            yield Finding("wrong", name, reason, _cure(name))
    publishes = any(config.publishes_cards for config in seen.configs)
    if publishes and seen.of("scheduler") and GATE not in there and f"{MUTATING}s".lower() not in seen.unseen:
        reason = "pods that ask for parts of a GPU are not gated by themselves: users write the gate"
        yield Finding("note", GATE, reason, "From Kubernetes 1.36 on, apply deploy/policies with gate.yaml.")


def _weak(seen: ClusterSeen) -> Iterator[Finding]:
    there = {(policy.kind, policy.name) for policy in seen.policies}
    for policy in seen.policies:
        if not OWN.fullmatch(policy.name):
            continue
        kind = f"{policy.kind}Binding"
        bindings = [one for one in seen.bindings if (one.kind, one.policy) == (kind, policy.name)]
        if kind.lower() + "s" not in seen.unseen and not bindings:
            yield Finding(
                "wrong", policy.name, "this policy is bound to nothing, and has no effect", _cure(policy.name)
            )
        elif bindings and not any(one.denies for one in bindings) and not policy.name.endswith("-warnings"):
            cure = f"Set validationActions: [Deny] in its binding. {_cure(policy.name)}"
            yield Finding("wrong", policy.name, "its bindings do not refuse what it forbids", cure)
        if not policy.fails_closed and not policy.name.endswith("-warnings"):
            cure = f"Set failurePolicy: Fail. {_cure(policy.name)}"
            yield Finding("wrong", policy.name, "requests pass where it cannot be judged", cure)
    for binding in seen.bindings:
        kind = binding.kind.removesuffix("Binding")
        is_unseen = f"{kind.lower().removesuffix('y')}ies" in seen.unseen
        if OWN.fullmatch(binding.name) and (kind, binding.policy) not in there and not is_unseen:
            yield Finding("wrong", binding.name, "what it binds is not there", _cure(binding.name))


def _unlisted(seen: ClusterSeen) -> Iterator[Finding]:
    """Where what the policies count as cards is not what nodes publish."""
    published = {card.resource for one in seen.machines for card in _cards(one)}
    for policy in seen.policies:
        if policy.name not in (GATE, "accelet-requests") or not policy.cards:
            continue
        for name in sorted(published - set(policy.cards)):
            reason = f"nodes publish cards as {name}, which it does not count: pods get them without a gate"
            yield Finding("wrong", policy.name, reason, f"Add {name} to its list of cards: {_LISTED}")
        others = [name for name in policy.cards if name in published]
        if policy.name == GATE and others and policy.cards[0] not in published:
            first = policy.cards[0]
            reason = f"pods that name no card are given {first}, of which no node publishes any"
            yield Finding("wrong", GATE, reason, f"Put {others[0]} first in its list of cards: {_LISTED}")


def _cards(machine: NodeMachine) -> tuple[NodeCard, ...]:
    try:
        return parse_node_cards(machine.node.annotations.get(NODE_CARDS_ANNOTATION, ""))
    except NodeCardsError:
        return ()


def _cure(name: str) -> str:
    return f"Apply {_CURES.get(name, 'the part of deploy/ that it is of')} again."
