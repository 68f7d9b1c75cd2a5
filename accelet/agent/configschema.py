"""The JSON schema of the configuration file, made from the types that read it.

`python -m accelet.agent.configschema` prints it; `make schema` writes docs/config.schema.json.
"""

import json
from typing import Any

import msgspec

from accelet.accelerators import BACKENDS
from accelet.agent.config import ConfigHead, ResourceEntry

_REFERENCE = "#/$defs/{name}"


def make_schema() -> dict[str, Any]:
    """A JSON schema (draft 2020-12); each resource is one of the back-ends' shapes."""
    types = [ConfigHead, ResourceEntry, *BACKENDS.values()]
    _, definitions = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    head = definitions.pop(ConfigHead.__name__)
    entry = definitions.pop(ResourceEntry.__name__)
    shapes = []
    for name, settings in BACKENDS.items():
        own = definitions.pop(settings.__name__)
        properties = {**entry["properties"], **own["properties"], "backend": {"const": name}}
        required = [*entry["required"], *own.get("required", [])]
        shapes.append(
            {
                "title": f"backend: {name}",
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        )
    resources = {"type": "array", "items": {"oneOf": shapes}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "accelet agent configuration, version v1",
        "type": "object",
        "properties": {**head["properties"], "resources": resources},
        "required": head["required"],
        "additionalProperties": False,
        "$defs": definitions,
    }


if __name__ == "__main__":
    print(json.dumps(make_schema(), indent=2))  # noqa: T201 - what the command is for
