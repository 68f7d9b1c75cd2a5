"""The CustomResourceDefinitions are those of the Structs, and are what the API server takes."""

from pathlib import Path
from typing import Annotated, Any, Optional

import jsonschema
import msgspec
import pytest
import yaml

from accelet.kinds.__main__ import DEFINITIONS, ORIGINAL_FILE, render_file
from accelet.kinds.definition import Definition
from accelet.kinds.originaltask import ORIGINAL_TASK_DEFINITION
from accelet.kinds.schema import structural_schema
from accelet.kinds.slicerequest import SliceRequestSpec, SliceSet

ALL = (*DEFINITIONS, ORIGINAL_TASK_DEFINITION)
_FOLDER = Path(__file__).parents[3] / "deploy" / "crds"


class _Inner(msgspec.Struct, frozen=True):
    """The inner one."""

    number: Annotated[int, msgspec.Meta(ge=1)]

    @staticmethod
    def rules() -> list[tuple[str, str]]:
        return [("self.number != 7", "seven is taken")]


class _Outer(msgspec.Struct, frozen=True, rename="camel"):
    inner_one: _Inner
    many: list[_Inner] = []
    maybe: str | None = None
    title: str = ""
    named: dict[str, int] = {}


class _Endless(msgspec.Struct, frozen=True):
    inside: Optional["_Endless"] = None


class _Either(msgspec.Struct, frozen=True):
    this: int | list[int]


def test_references_are_put_in_place_with_their_rules() -> None:
    schema = structural_schema(_Outer)

    inner = {
        "type": "object",
        "description": "The inner one.",
        "properties": {"number": {"type": "integer", "minimum": 1}},
        "required": ["number"],
        "x-kubernetes-validations": [{"rule": "self.number != 7", "message": "seven is taken"}],
    }
    assert schema["properties"]["innerOne"] == inner
    assert schema["properties"]["many"]["items"] == inner
    assert schema["properties"]["maybe"] == {"type": "string"}
    assert schema["properties"]["title"]["type"] == "string"
    assert schema["required"] == ["innerOne"]


@pytest.mark.parametrize(("kind", "reason"), [(_Endless, "contains itself"), (_Either, "union of several")])
def test_what_has_no_structural_schema_is_refused(kind: type[msgspec.Struct], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        structural_schema(kind)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.name)
def test_the_file_is_current(definition: Definition) -> None:
    file = _FOLDER / f"{definition.resource.plural}.yaml"

    assert file.read_text() == render_file(definition), "run 'make crds'"


def test_the_original_kind_is_installed_by_those_alone_who_ask_for_it() -> None:
    file = _FOLDER.parent / ORIGINAL_FILE

    assert file.read_text() == render_file(ORIGINAL_TASK_DEFINITION), "run 'make crds'"
    assert "falldio" not in (_FOLDER / "kustomization.yaml").read_text()
    assert ORIGINAL_TASK_DEFINITION.short_names == ()


@pytest.mark.parametrize("definition", ALL, ids=lambda one: one.name)
def test_every_text_list_and_map_is_bounded(definition: Definition) -> None:
    schema = definition.render()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert list(_unbounded(schema["properties"]["spec"], "spec")) == []
    assert list(_unbounded(schema["properties"]["status"], "status")) == []


@pytest.mark.parametrize("definition", ALL, ids=lambda one: one.name)
def test_every_field_has_a_type_and_only_words_the_api_server_knows(definition: Definition) -> None:
    schema = definition.render()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert list(_odd(schema, "")) == []


_KNOWN = {
    "type",
    "description",
    "properties",
    "required",
    "items",
    "enum",
    "format",
    "default",
    "pattern",
} | {
    *(
        "minimum",
        "maximum",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "maxProperties",
        "additionalProperties",
    ),
    "x-kubernetes-validations",
    "x-kubernetes-int-or-string",
}


def _odd(schema: dict[str, Any], place: str) -> list[str]:
    found = [f"{place}: {word}" for word in schema if word not in _KNOWN]
    found += [] if {"type", "x-kubernetes-int-or-string"} & set(schema) else [f"{place}: no type"]
    inner = dict(schema.get("properties", {}))
    inner |= {word: schema[word] for word in ("items", "additionalProperties") if word in schema}
    return found + [odd for name, one in inner.items() for odd in _odd(one, f"{place}.{name}")]


def _unbounded(schema: dict[str, Any], place: str) -> list[str]:
    """A rule over a field without bounds costs the API server more than it allows."""
    found = []
    match schema.get("type"):
        case "string" if not {"maxLength", "enum", "format"} & set(schema):
            found.append(place)
        case "array":
            found += [] if "maxItems" in schema else [place]
            found += _unbounded(schema["items"], f"{place}[]")
        case "object":
            if "additionalProperties" in schema:
                found += [] if "maxProperties" in schema else [place]
                found += _unbounded(schema["additionalProperties"], f"{place}{{}}")
            for name, inner in schema.get("properties", {}).items():
                found += _unbounded(inner, f"{place}.{name}")
    return found


def test_what_the_structs_write_is_valid_by_the_schema() -> None:
    spec = SliceRequestSpec(
        accelerator="tpu-v6e-slice", topology="4x4", chips_per_pod=4, slice_set=SliceSet(name="a", size=2)
    )
    written = msgspec.to_builtins(spec)

    jsonschema.validate(written, structural_schema(SliceRequestSpec))
    assert written == {
        "accelerator": "tpu-v6e-slice",
        "topology": "4x4",
        "chipsPerPod": 4,
        "set": {"name": "a", "size": 2},
    }
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "chipsPerPod": 99}, structural_schema(SliceRequestSpec))


def test_the_file_is_yaml_of_one_definition() -> None:
    for file in _FOLDER.glob("*.yaml"):
        if file.name != "kustomization.yaml":
            assert yaml.safe_load(file.read_text())["kind"] == "CustomResourceDefinition"


@pytest.mark.parametrize("definition", ALL, ids=lambda one: one.resource.plural)
def test_helm_renders_every_number_as_it_is_written(definition: Definition) -> None:
    """It reads numbers as floating point, of which few above 2^53 are written back alike."""

    def numbers(value: object) -> list[int]:
        match value:
            case dict():
                return [one for each in value.values() for one in numbers(each)]
            case list():
                return [one for each in value for one in numbers(each)]
            case bool() | str() | None:
                return []
            case _:
                return [int(value)]  # type: ignore[call-overload]  # a number of YAML

    assert max(numbers(yaml.safe_load(render_file(definition)))) <= 2**53
