"""The admission policies as objects: what a stage writes, what it refuses and what it warns of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from accelet.provisioner.identity.hosts import host_table
from release.identity import expressions as cel

Object = dict[str, Any]
PatchStyle = Literal["ApplyConfiguration", "JSONPatch"]

_LABELS: Final = {
    "app.kubernetes.io/name": "accelet",
    "app.kubernetes.io/component": "identity",
    "app.kubernetes.io/part-of": "accelet",
}
_FIELDS: Final[Mapping[PatchStyle, str]] = {
    "ApplyConfiguration": "applyConfiguration",
    "JSONPatch": "jsonPatch",
}
_API: Final = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of object, which is written on first and judged then.

    `asks` is the condition on which anything is done. `written` is what a mutation of this `style` makes,
    over `variables` and `writes`. `refused`, `limits` and `warned` are sentences over `variables`, empty
    where there is nothing to say. `written_again` is the condition on which an update is written on too,
    empty for never.
    """

    name: str
    group: str
    version: str
    asks: str
    variables: Mapping[str, str]
    written: str
    style: PatchStyle
    refused: str
    warned: str
    limits: tuple[str, ...] = ()
    writes: Mapping[str, str] = field(default_factory=dict)
    is_judged_on_update: bool = False
    written_again: str = ""

    def render(self) -> list[Object]:
        """The stage's policies, each with its binding."""
        policies = [self._mutating(), self._validating("", self.refused, "Deny", self.limits)]
        if self.warned:
            policies.append(self._validating("-warnings", self.warned, "Warn"))
        return [one for pair in policies for one in pair]

    def _mutating(self) -> list[Object]:
        mutation = {"patchType": self.style, _FIELDS[self.style]: {"expression": self.written}}
        conditions, operations = [{"name": "asks-for-tpus", "expression": self.asks}], ["CREATE"]
        if self.written_again:
            expression = f'request.operation == "CREATE" || ({self.written_again})'
            conditions.append({"name": "is-made-or-let-run", "expression": expression})
            operations.append("UPDATE")
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": self._constraints(operations),
            "matchConditions": conditions,
            "variables": self._variables({**self.variables, **self.writes}),
            "mutations": [mutation],
        }
        return _bound("Mutating", f"accelet-identity-{self.name}", spec, {})

    def _validating(
        self, suffix: str, reason: str, action: str, limits: tuple[str, ...] = ()
    ) -> list[Object]:
        operations = ["CREATE", "UPDATE"] if self.is_judged_on_update else ["CREATE"]
        reasons = {"reason": reason} | {f"limit{index}": limit for index, limit in enumerate(limits)}
        spec = {
            # To be warned of nothing harms nobody.
            "failurePolicy": "Fail" if action == "Deny" else "Ignore",
            "matchConstraints": self._constraints(operations),
            "matchConditions": [{"name": "asks-for-tpus", "expression": self.asks}],
            "variables": self._variables({**self.variables, **reasons}),
            "validations": [
                {"expression": f'variables.{name} == ""', "messageExpression": f"variables.{name}"}
                for name in reasons
            ],
        }
        name = f"accelet-identity-{self.name}{suffix}"
        return _bound("Validating", name, spec, {"validationActions": [action]})

    def _constraints(self, operations: list[str]) -> Object:
        rule = {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "operations": operations,
            "resources": [self.name],
        }
        system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
        return {"namespaceSelector": {"matchExpressions": [system]}, "resourceRules": [rule]}

    def _variables(self, own: Mapping[str, str]) -> list[Object]:
        table = host_table()
        every = {
            "table": cel.mapping(table.hosts),
            "sizes": cel.mapping(table.sizes),
            "topologies": cel.mapping(table.topologies),
            **own,
        }
        return [{"name": name, "expression": expression} for name, expression in every.items()]


def _bound(kind: str, name: str, spec: Object, binding: Object) -> list[Object]:
    metadata = {"name": name, "labels": dict(_LABELS)}
    policy = {"apiVersion": _API, "kind": f"{kind}AdmissionPolicy", "metadata": metadata, "spec": spec}
    bound = {
        "apiVersion": _API,
        "kind": f"{kind}AdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": name, **binding},
    }
    return [policy, bound]
