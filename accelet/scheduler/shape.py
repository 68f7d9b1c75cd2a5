"""What a pod asks of a node, without who asks."""

from dataclasses import dataclass

from accelet.kube.pods import Pod
from accelet.kube.requests import pod_units
from accelet.kube.selection import NodeTerm, Toleration
from accelet.scheduler.usage import UNLIMITED


@dataclass(frozen=True, slots=True)
class Rules:
    """Which nodes a pod may be on. `required_terms` is None without required node affinity."""

    node_selector: frozenset[tuple[str, str]] = frozenset()
    required_terms: tuple[NodeTerm, ...] | None = None
    tolerations: frozenset[Toleration] = frozenset()


@dataclass(frozen=True, slots=True)
class Shape:
    """Pods of one shape are interchangeable: same rules, same units (positive ones, `pods` among them)."""

    units: frozenset[tuple[str, int]]
    rules: Rules = Rules()


def shape_of(pod: Pod) -> Shape:
    return Shape(
        units=frozenset(
            (resource, min(amount, UNLIMITED)) for resource, amount in pod_units(pod).items() if amount > 0
        ),
        rules=Rules(
            node_selector=frozenset(pod.node_selector.items()),
            required_terms=pod.required_terms,
            tolerations=frozenset(pod.tolerations),
        ),
    )
