"""Whatever the schemas let a tenant write, an API server has room for the object and its status."""

from typing import Any, Final

import msgspec
import pytest

from accelet.kinds.__main__ import DEFINITIONS
from accelet.kinds.definition import Definition
from accelet.kinds.gputask import GPU_TASK_DEFINITION, MOST_TEXT
from accelet.kinds.originaltask import ORIGINAL_TASK_DEFINITION

_STORED: Final = 3 * 2**19
"""What etcd takes in one request, unless it is told otherwise."""

_METADATA: Final = 2**18
"""What all annotations together may have; they hold a copy of the rest where `kubectl apply` made it."""

_LETTER: Final = 6
"""Bytes of one letter in what is stored: `<` is written as \\u003c."""

_BY_TENANTS: Final = (GPU_TASK_DEFINITION, ORIGINAL_TASK_DEFINITION)
_SENTENCES: Final = ("why", "lastEnd", "message", "text")
"""Of what we write ourselves, these alone may have letters of others; the rest are names and numbers."""

_LABEL: Final = 317
_TOGETHER: Final = ("command", "args", "env")


@pytest.mark.parametrize("definition", [*DEFINITIONS, ORIGINAL_TASK_DEFINITION], ids=lambda one: one.name)
def test_the_largest_object_fits_with_its_status(definition: Definition) -> None:
    parts = definition.render()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    spec = _most(parts["spec"], _LETTER if definition in _BY_TENANTS else 1)

    assert spec + _most(parts["status"], 1) < _STORED - _METADATA


def test_the_bound_of_a_program_is_what_makes_it_fit() -> None:
    """Each of its texts may be long, but not all of them."""
    spec = GPU_TASK_DEFINITION.render()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]
    texts = {name: spec["properties"]["container"]["properties"][name] for name in _TOGETHER}

    assert _most({"type": "object", "properties": texts}, _LETTER) > _STORED
    rules = [one["rule"] for one in spec["properties"]["container"]["x-kubernetes-validations"]]
    assert [rule for rule in rules if rule.endswith(f"<= {MOST_TEXT}")]
    assert all(any(f"self.{name}.map" in rule for rule in rules) for name in _TOGETHER)


def _most(schema: dict[str, Any], letter: int) -> int:
    """Bytes of the longest JSON that a schema allows; a label's name is bounded by a rule."""
    if choices := schema.get("enum"):
        return max(map(_size, choices))
    if "format" in schema or schema.get("type") in ("integer", "boolean"):
        return 40
    if "maxLength" in schema:
        return int(schema["maxLength"]) * letter + 2
    if schema["type"] == "array":
        return 2 + int(schema["maxItems"]) * (_most(schema["items"], letter) + 1)
    if (values := schema.get("additionalProperties")) is not None:
        return 2 + int(schema["maxProperties"]) * (_LABEL * letter + _most(values, letter) + 4)
    return _most_of_fields(schema, letter)


def _most_of_fields(schema: dict[str, Any], letter: int) -> int:
    fields = dict(schema["properties"])
    most = 2
    if any(one["rule"].endswith(f"<= {MOST_TEXT}") for one in schema.get("x-kubernetes-validations", ())):
        most += MOST_TEXT * letter + sum(_size(name) + 2 + _frame(fields.pop(name)) for name in _TOGETHER)
    return most + sum(
        _size(name) + 2 + _most(one, _LETTER if name in _SENTENCES else letter)
        for name, one in fields.items()
    )


def _frame(texts: dict[str, Any]) -> int:
    """What a list of texts takes beside their letters."""
    longest = '{"name":"","value":"","valueFrom":{"configMapKeyRef":{"name":"","key":"","optional":false}}},'
    return 2 + int(texts["maxItems"]) * len(longest)


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))
