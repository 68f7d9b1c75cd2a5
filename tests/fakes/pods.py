"""Pod values, as short as they can be said."""

from collections.abc import Mapping, Sequence

from accelet.kube.objects import Owner
from accelet.kube.pods import Container, Pod
from accelet.kube.selection import NodeTerm, Toleration


def pod(
    name: str = "p",
    *containers: Container,
    init: Sequence[Container] = (),
    namespace: str = "ml",
    uid: str | None = None,
    version: int | None = None,
    on: str | None = None,
    phase: str | None = None,
    gates: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Owner | None = None,
    selector: Mapping[str, str] | None = None,
    terms: tuple[NodeTerm, ...] | None = None,
    tolerations: Sequence[Toleration] = (),
    priority: int = 0,
    may_preempt: bool = True,
    pod_group: str | None = None,
    created_s: float = 0.0,
) -> Pod:
    """A pod, by default of one container that asks for nothing; it runs if it is `on` a node."""
    return Pod(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}" if uid is None else uid,
        resource_version="" if version is None else str(version),
        created_s=created_s,
        labels=labels or {},
        annotations=annotations or {},
        owners=(owner,) if owner else (),
        node_name=on,
        phase=phase or ("Running" if on else "Pending"),
        gates=tuple(gates),
        priority=priority,
        may_preempt=may_preempt,
        pod_group=pod_group,
        node_selector=selector or {},
        required_terms=terms,
        tolerations=tuple(tolerations),
        init_containers=tuple(init),
        containers=containers or (Container("main"),),
    )
