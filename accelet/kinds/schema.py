"""From msgspec Structs to the structural schemas that the API server takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Schema = dict[str, Any]

_DROPPED: Final = frozenset(("title", "$schema", "propertyNames"))


def structural_schema(kind: type[msgspec.Struct]) -> Schema:
    """The OpenAPI v3 schema of a Struct as a CustomResourceDefinition wants it.

    References are put in place, `X | None` is an `X` that may be absent, `str | int` takes either.
    A docstring is a description, a Struct's `rules()` (pairs of CEL rule and message) its validations.

    Raises:
        TypeError: a type has no structural schema: it contains itself, or is a union of several.
    """
    (root,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    schema: Schema = _Resolver(components, _rules_of(kind, {})).resolve(root, ())
    return schema


def _rules_of(kind: Any, found: dict[str, Sequence[tuple[str, str]]]) -> dict[str, Sequence[tuple[str, str]]]:
    """The rules of `kind` and of every Struct below it, by their names."""
    for struct in _structs_in(kind):
        if struct.__name__ in found:
            continue
        rules = getattr(struct, "rules", None)
        found[struct.__name__] = rules() if rules else ()
        for field in msgspec.structs.fields(struct):
            _rules_of(field.type, found)
    return found


def _structs_in(kind: Any) -> list[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [struct for part in getattr(kind, "__args__", ()) for struct in _structs_in(part)]


class _Resolver:
    def __init__(
        self, components: Mapping[str, Schema], rules: Mapping[str, Sequence[tuple[str, str]]]
    ) -> None:
        self._components, self._rules = components, rules

    def resolve(self, schema: Any, above: tuple[str, ...]) -> Any:
        if isinstance(schema, list):
            return [self.resolve(part, above) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if (name := schema.get("$ref")) is not None:
            return self._put_in_place(name, schema, above)
        if (choices := schema.get("anyOf")) is not None:
            return self._only_choice(schema, choices, above)
        if "enum" in schema and "type" not in schema:
            schema = {"type": _type_of(schema["enum"]), **schema}
        return {
            key: self._value(key, value, above)
            for key, value in schema.items()
            if key not in _DROPPED and not (key == "default" and value in (None, {}, [], ()))
        }

    def _value(self, key: str, value: Any, above: tuple[str, ...]) -> Any:
        if key == "properties":
            return {name: self.resolve(inner, above) for name, inner in value.items()}
        if key == "description":
            return " ".join(value.split())
        return self.resolve(value, above)

    def _put_in_place(self, name: str, reference: Schema, above: tuple[str, ...]) -> Schema:
        if name in above:
            raise TypeError(f"{name} contains itself; the API server takes no such schema")
        resolved = self.resolve(self._components[name], (*above, name))
        assert isinstance(resolved, dict)
        validations = [{"rule": rule, "message": text} for rule, text in self._rules.get(name, ())]
        own = {key: value for key, value in reference.items() if key == "description"}
        return {**resolved, **own, **({"x-kubernetes-validations": validations} if validations else {})}

    def _only_choice(self, schema: Schema, choices: Sequence[Schema], above: tuple[str, ...]) -> Schema:
        kept = [choice for choice in choices if choice.get("type") != "null"]
        if sorted(str(choice.get("type")) for choice in kept) == ["integer", "string"]:
            return self._int_or_text(schema, kept)
        if len(kept) != 1:
            raise TypeError(f"a union of several types has no structural schema: {choices}")
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return {**self.resolve(kept[0], above), **self.resolve(rest, above)}

    def _int_or_text(self, schema: Schema, kept: Sequence[Schema]) -> Schema:
        """An amount: `8`, or `500m`. The longest text is said of both, and holds for texts."""
        longest = {key: choice[key] for choice in kept for key in ("maxLength",) if key in choice}
        rest = {key: value for key, value in schema.items() if key == "description"}
        return {"x-kubernetes-int-or-string": True, **longest, **rest}


def _type_of(choices: Sequence[Any]) -> str:
    """The API server wants a type beside the choices.

    Raises:
        TypeError: they are of several types.
    """
    types = {type(choice) for choice in choices}
    if types == {str}:
        return "string"
    if types == {int}:
        return "integer"
    raise TypeError(f"choices of several types have no structural schema: {choices}")
