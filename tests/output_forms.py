"""What a command prints with --json, held to the form that docs/output.schema.json tells."""

import json
from functools import cache
from typing import Any

import jsonschema

from accelet.cli.forms.jsonforms import make_schema


def read_form(command: str, printed: str) -> Any:
    """What was printed; fails where the form of `command` knows nothing of a part of it."""
    shown = json.loads(printed)
    _judge(command).validate(shown)
    return shown


@cache
def _judge(command: str) -> jsonschema.Draft202012Validator:
    schema = make_schema()
    for part in schema["$defs"].values():
        if "properties" in part:
            part["additionalProperties"] = False
    return jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{command}"})
