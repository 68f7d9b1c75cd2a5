"""What PodDisruptionBudgets say of ending pods otherwise than by the eviction API, which asks them itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import RawObject, Wire, WireObject, read_object

BUDGETS = ApiResource("PodDisruptionBudget", "poddisruptionbudgets", "policy")


class _WireExpression(Wire, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class _WireSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_WireExpression] | None = None


class _WireSpec(Wire, frozen=True):
    selector: _WireSelector | None = None


class _WireStatus(Wire, frozen=True):
    disruptions_allowed: int | None = None


class _WireBudget(WireObject, frozen=True):
    spec: _WireSpec | None = None
    status: _WireStatus | None = None


@dataclass(frozen=True, slots=True)
class LabelRule:
    """One requirement of a label selector; one that is not understood is met by every pod."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
            case _:
                return True


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Of the pods of its namespace for which all `rules` hold, `allowed` may be disrupted now.

    `rules` is None for one without a selector, which is about no pod. One about whose pods the API server
    has not said anything yet allows none.
    """

    namespace: str
    name: str
    rules: tuple[LabelRule, ...] | None
    allowed: int = 0

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (
            self.rules is not None
            and namespace == self.namespace
            and all(r.holds(labels) for r in self.rules)
        )


def parse_budget(raw: RawObject) -> DisruptionBudget:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "PodDisruptionBudget", _WireBudget)
    selector = wire.spec.selector if wire.spec is not None else None
    rules: tuple[LabelRule, ...] | None = None
    if selector is not None:
        equal = [
            LabelRule(key, "In", frozenset((one,))) for key, one in (selector.match_labels or {}).items()
        ]
        others = [
            LabelRule(one.key, one.operator, frozenset(one.values or ()))
            for one in selector.match_expressions or ()
        ]
        rules = (*equal, *others)
    return DisruptionBudget(
        wire.metadata.namespace or "default",
        wire.metadata.name,
        rules,
        (wire.status.disruptions_allowed or 0) if wire.status is not None else 0,
    )


def why_forbidden(
    namespace: str, pods: Sequence[Mapping[str, str]], budgets: Iterable[DisruptionBudget]
) -> str:
    """Why budgets do not let all of these pods, by their labels, end at once: one sentence, or none.

    A pod of more than one budget cannot be evicted at all: the API server refuses to weigh them.
    """
    known = sorted((one for one in budgets if one.namespace == namespace), key=lambda one: one.name)
    for labels in pods:
        names = [budget.name for budget in known if budget.covers(namespace, labels)]
        if len(names) > 1:
            budgets_of_one = f"{len(names)} disruption budgets, {names[0]} and another"
            return f"one of its pods is covered by {budgets_of_one}: no eviction of it is served"
    for budget in known:
        count = sum(budget.covers(namespace, labels) for labels in pods)
        if count > max(0, budget.allowed):
            now = max(0, budget.allowed)
            return f"the disruption budget {budget.name} lets {now} of its {count} pods be disrupted now"
    return ""
