"""Prints the JSON schema of scenario files; `make schema` writes it to docs/scenario.schema.json."""

import json

from accelet.fakekubelet.scenario.format import schema

print(json.dumps(schema(), indent=2))  # noqa: T201 - what the command is for
