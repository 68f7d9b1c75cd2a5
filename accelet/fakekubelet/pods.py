"""Pods as the kubelet sees them: what they ask for, in which containers."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NewType

PodUid = NewType("PodUid", str)


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of `spec.resourceClaims`: its name in the pod, and the object's.

    A `generated` claim was made for this pod from a template, and has to be owned by it.
    """

    name: str
    claim: str
    generated: bool = False


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One entry of a container's `resources.claims`; without a request all of the claim."""

    name: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """One container and how much it asks of each resource.

    `restart_policy` "Always" makes an init container a sidecar. `numa_affinity` is the mask that the
    topology manager settled on for this container; None under its default policy `none`. `dra_backed`
    names the resources that dynamic resource allocation provides instead of a device plugin. `claims` are
    the pod's claims that it uses, each as a whole or one request of it.
    """

    name: str
    limits: Mapping[str, int]
    restart_policy: Literal["Always"] | None = None
    numa_affinity: frozenset[int] | None = None
    dra_backed: frozenset[str] = frozenset()
    claims: tuple[ClaimUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod bound to this node. `created_at` is in seconds; the kubelet sorts its first pods by it.

    `claims` are the ResourceClaims it names. `pod_group` is the PodGroup that it belongs to, where the
    kubelet has the feature gate DRAWorkloadResourceClaims (KEP-5729).
    """

    name: str
    namespace: str
    uid: PodUid
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=_nothing)
    labels: Mapping[str, str] = field(default_factory=_nothing)
    created_at: int = 0
    node_name: str = "node"
    claims: tuple[PodClaim, ...] = ()
    pod_group: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def in_order(self) -> Iterator[Container]:
        """The containers in the order in which the kubelet admits and starts them."""
        yield from self.init_containers
        yield from self.containers

    def container(self, name: str) -> Container:
        return next(container for container in self.in_order() if container.name == name)

    def is_plain_init(self, name: str) -> bool:
        """Whether this container runs to its end before the main containers start."""
        return any(init.name == name and init.restart_policy is None for init in self.init_containers)


def a_container(
    name: str = "main",
    limits: Mapping[str, int] | None = None,
    *,
    restart_policy: Literal["Always"] | None = None,
    numa_affinity: Iterable[int] | None = None,
    dra_backed: Iterable[str] = (),
    claims: Iterable[str] = (),
) -> Container:
    """A container. Each of `claims` is the name of a pod's claim, or `name/request` for a part of it."""
    return Container(
        name=name,
        limits=MappingProxyType(dict(limits or {})),
        restart_policy=restart_policy,
        numa_affinity=None if numa_affinity is None else frozenset(numa_affinity),
        dra_backed=frozenset(dra_backed),
        claims=tuple(
            ClaimUse(name, request) for name, _, request in (each.partition("/") for each in claims)
        ),
    )


def a_pod(
    name: str = "pod",
    namespace: str = "default",
    *,
    containers: Iterable[Container] | None = None,
    init_containers: Iterable[Container] = (),
    limits: Mapping[str, int] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    uid: str | None = None,
    created_at: int = 0,
    node_name: str = "node",
    claims: Mapping[str, str] | None = None,
    generated_claims: Mapping[str, str] | None = None,
    pod_group: str = "",
) -> Pod:
    """A pod with `containers`, or with one container `main` that asks for `limits` and all claims.

    `claims` are ResourceClaims by their name in the pod, `generated_claims` those made from a template.
    `pod_group` is the PodGroup that it belongs to, see `Pod`.

    Raises:
        ValueError: both or duplicate container names were given, or a container uses a claim of no pod.
    """
    named = (*_pod_claims(claims, generated=False), *_pod_claims(generated_claims, generated=True))
    if containers is not None and limits is not None:
        raise ValueError(f"pod {name}: give containers, or limits for a single one, not both")
    main = tuple(containers) if containers is not None else (_single(limits, named),)
    init = tuple(init_containers)
    names = [container.name for container in (*init, *main)]
    if len(set(names)) != len(names):
        raise ValueError(f"pod {name}: container names must differ, these do not: {', '.join(names)}")
    used = {use.name for container in (*init, *main) for use in container.claims}
    if unknown := sorted(used - {claim.name for claim in named}):
        raise ValueError(f"pod {name}: its containers use claims it does not have: {', '.join(unknown)}")
    return Pod(
        name=name,
        namespace=namespace,
        uid=PodUid(uid or str(uuid.uuid4())),
        containers=main,
        init_containers=init,
        annotations=MappingProxyType(dict(annotations or {})),
        labels=MappingProxyType(dict(labels or {})),
        created_at=created_at,
        node_name=node_name,
        claims=named,
        pod_group=pod_group,
    )


def _pod_claims(claims: Mapping[str, str] | None, *, generated: bool) -> Iterator[PodClaim]:
    return (PodClaim(name, claim, generated) for name, claim in (claims or {}).items())


def _single(limits: Mapping[str, int] | None, claims: Iterable[PodClaim]) -> Container:
    return a_container("main", limits, claims=[claim.name for claim in claims])
