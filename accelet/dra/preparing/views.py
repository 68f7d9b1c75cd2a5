"""What a claim's devices set in the environment of containers, proven right for each of them, or refused.

Environment like ZE_AFFINITY_MASK tells of all devices of a container at once, but a driver can only say
what comes with a request, and where several come together the last one wins; between claims the order is
left to chance. So a request's environment must be that of everything its containers have.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from accelet.dra.errors import ClaimError
from accelet.dra.preparing.consumers import WHOLE, ClaimUse, ConsumerPod

Environment = Mapping[str, str]

NO_ENVIRONMENT: Environment = MappingProxyType({})


class Describe(Protocol):
    """The environment of a container that has the devices of these requests.

    Raises:
        ClaimError: they cannot be used together.
    """

    def __call__(self, requests: frozenset[str], /) -> Environment: ...


@dataclass(frozen=True, slots=True)
class Views:
    """What each request's devices set, and what comes last for containers that use the claim as a whole."""

    by_request: Mapping[str, Environment] = field(default_factory=lambda: MappingProxyType({}))
    whole: Environment = field(default_factory=lambda: NO_ENVIRONMENT)

    @property
    def has_environment(self) -> bool:
        return bool(self.whole) or any(self.by_request.values())


def prove_views(
    claim: str, requests: Sequence[str], describe: Describe, pods: Collection[ConsumerPod] | None
) -> Views:
    """The environment of a claim's requests.

    `pods` are all pods that can ever use the claim; None where that cannot be known.

    Raises:
        ClaimError: it cannot be right for each container.
    """
    every = frozenset(requests)
    if len(every) <= 1:
        return Views({request: describe(every) for request in every})
    if pods is None:
        return _without_pods(claim, every, describe)
    uses = [use for pod in pods for use in pod.uses if use.claim == claim]
    chosen: dict[str, Environment] = {}
    reasons: dict[str, str] = {}
    for use in uses:
        named = frozenset(request for request in use.requests if request is not WHOLE) & every
        has_whole = WHOLE in use.requests
        wanted = describe(every if has_whole else named) if has_whole or named else NO_ENVIRONMENT
        for request in sorted(named):
            if chosen.setdefault(request, wanted) != wanted:
                raise ClaimError(_say_contradiction(request, reasons[request], use.container))
            reasons.setdefault(request, use.container)
    by_request = {
        request: chosen[request] if request in chosen else _alone(describe, request)
        for request in sorted(every)
    }
    if not any(WHOLE in use.requests for use in uses):
        return Views(by_request)
    return Views(by_request, _override(describe(every), by_request))


def _without_pods(claim: str, every: frozenset[str], describe: Describe) -> Views:
    """Of a claim that any pod may use, containers nobody has seen yet may name any of its requests."""
    views = Views({request: describe(frozenset({request})) for request in sorted(every)})
    if views.has_environment or describe(every):
        raise ClaimError(
            f"the claim {claim} has several requests, not all for whole GPUs, and any pod may use some of "
            "them: use one request with a count, or a ResourceClaimTemplate"
        )
    return views


def _alone(describe: Describe, request: str) -> Environment:
    """That of a request which no container names; one that could not be used alone sets nothing."""
    try:
        return describe(frozenset({request}))
    except ClaimError:
        return NO_ENVIRONMENT


def _override(whole: Environment, by_request: Mapping[str, Environment]) -> Environment:
    """What comes last, so that nothing of a single request is left standing.

    Raises:
        ClaimError: a request sets what the whole does not.
    """
    if any(not environment.keys() <= whole.keys() for environment in by_request.values()):
        raise ClaimError(
            "the claim's requests together need another environment than one by one, and a container uses "
            "the claim as a whole: use one request with a count"
        )
    return whole if any(environment != whole for environment in by_request.values()) else NO_ENVIRONMENT


def _say_contradiction(request: str, first: str, second: str) -> str:
    return (
        f"the request {request} is used by the containers {first} and {second} together with different "
        "other devices, and can tell only one of them rightly which tiles or chips it has: give each "
        "container a request of its own"
    )


@dataclass(frozen=True, slots=True)
class OtherClaim:
    """Another claim of this driver that is prepared, or is to be; by its name in the same namespace."""

    name: str
    has_environment: bool


def refuse_mixture(
    claim: str, *, has_environment: bool, pods: Collection[ConsumerPod], others: Collection[OtherClaim]
) -> None:
    """Two claims in one container are right only where neither sets anything.

    Raises:
        ClaimError: a container uses this claim and another, and one of them sets its environment.
    """
    known = {other.name: other for other in others}
    for pod in pods:
        for container, claims in _claims_by_container(pod.uses).items():
            if claim not in claims:
                continue
            for other in sorted(claims & known.keys() - {claim}):
                if has_environment or known[other].has_environment:
                    raise ClaimError(
                        f"the claims {claim} and {other} both give parts of devices to the container "
                        f"{container}, which can be told of one only: put both requests into one claim"
                    )


def refuse_beside_plugin(claim: str, domain: str, pods: Collection[ConsumerPod]) -> None:
    """A claim is right only in containers that have none of the same hardware by the device plugin.

    `domain` is what the names of the extended resources begin with that such hardware has.

    Raises:
        ClaimError: a container uses the claim and has such a resource.
    """
    for pod in pods:
        for container, claims in _claims_by_container(pod.uses).items():
            beside = sorted(name for name in pod.by_plugin.get(container, ()) if name.startswith(domain))
            if claim in claims and beside:
                raise ClaimError(
                    f"the container {container} has {beside[0]} by the device plugin beside the claim "
                    f"{claim}, and can be told rightly of one only: use claims for both, or two containers"
                )


def _claims_by_container(uses: Sequence[ClaimUse]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for use in uses:
        found.setdefault(use.container, set()).add(use.claim)
    return {container: frozenset(claims) for container, claims in found.items()}
