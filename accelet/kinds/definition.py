"""What a CustomResourceDefinition says beside the schema."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelet.kinds.schema import Schema, structural_schema
from accelet.kube.apiresources import ApiResource

GROUP: Final = "accelet.dev"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. Those of a `priority` above 0 are shown by `-o wide`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Where `kubectl scale` and autoscalers find how many are wanted, how many there are, and which."""

    wanted: str
    present: str
    selector: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of ours. `selectable` are the fields by which objects can be listed.

    `rules` are pairs of CEL rule and message about the whole object, its name among them.
    """

    resource: ApiResource
    singular: str
    short_names: tuple[str, ...]
    spec: type[msgspec.Struct]
    status: type[msgspec.Struct]
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    description: str = ""
    rules: tuple[tuple[str, str], ...] = ()
    scale: Scale | None = None

    @property
    def name(self) -> str:
        return f"{self.resource.plural}.{self.resource.group}"

    def render(self) -> dict[str, Any]:
        """The CustomResourceDefinition, with a status subresource, for namespaced objects."""
        resource = self.resource
        version: dict[str, Any] = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": self._schema()},
            "subresources": {"status": {}, **self._scale()},
            "additionalPrinterColumns": [_column(column) for column in self.columns],
        }
        if self.selectable:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": resource.group,
                "scope": "Namespaced",
                "names": {
                    "kind": resource.kind,
                    "plural": resource.plural,
                    "singular": self.singular,
                    "shortNames": list(self.short_names),
                    "listKind": f"{resource.kind}List",
                    "categories": ["accelet"],
                },
                "versions": [version],
            },
        }

    def _scale(self) -> dict[str, Any]:
        if self.scale is None:
            return {}
        paths = {
            "specReplicasPath": self.scale.wanted,
            "statusReplicasPath": self.scale.present,
            "labelSelectorPath": self.scale.selector,
        }
        return {"scale": paths}

    def _schema(self) -> Schema:
        validations = [{"rule": rule, "message": text} for rule, text in self.rules]
        return {
            "type": "object",
            "description": self.description,
            **({"x-kubernetes-validations": validations} if validations else {}),
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": structural_schema(self.spec),
                "status": structural_schema(self.status),
            },
        }


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | ({"priority": column.priority} if column.priority else {})
