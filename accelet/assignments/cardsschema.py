"""The JSON schema of the annotation accelet.dev/cards, made from the types that read it.

`python -m accelet.assignments.cardsschema` prints it; `make schema` writes docs/cards.schema.json.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, CardsDocument

_MEANINGS: Mapping[str, str] = {
    "id": "The stable name of the unit: its PCI address with : as -, an NVIDIA GPU's UUID.",
    "resource": "What it is served as, gpu.intel.com/i915.",
    "card": "Its DRM name, which may change over a reboot.",
    "pci": "Its PCI address, 0000:03:00.0.",
    "model": "Its kind: a name, or its PCI device id where there is none.",
    "driver": "The kernel driver it is bound to; absent where nothing says so.",
    "tiles": "How many tiles it has, numbered from 0.",
    "memory": "The bytes of memory of all its tiles; absent where it is not known, which is not 0.",
    "numa": "Its NUMA node; absent where it cannot be told.",
    "links": "Direct links: a tile of its own, the id of another card, a tile of that.",
    "shares": "How many containers can hold it at one time.",
    "unassigned": "How many of its shares are with containers to which nothing of it is assigned.",
    "unhealthy": "Why it cannot be used; absent where it can.",
    "part_of": "The GPU that it is a partition, a MIG instance or a virtual function of.",
    "mode": "How its GPU is cut: cpx_nps4, mig; absent where it cannot be told, or cut.",
    "fabric": "What connects it directly with cards of the same name here: an xGMI hive.",
}


def make_schema() -> dict[str, Any]:
    """A JSON schema (draft 2020-12). It allows more fields: a later agent may say more."""
    (_, *_), definitions = msgspec.json.schema_components([CardsDocument], ref_template="#/$defs/{name}")
    document, card = definitions[CardsDocument.__name__], definitions["_Card"]
    for name, field in card["properties"].items():
        field["description"] = _MEANINGS[name]
        if field.get("default", ...) in (None, []):
            del field["default"]
        if "anyOf" in field:  # what is absent is not written as null
            (field_type,) = (choice for choice in field.pop("anyOf") if choice != {"type": "null"})
            field.update(field_type)
    cards = {"type": "array", "items": {"$ref": "#/$defs/card"}}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The annotation {NODE_CARDS_ANNOTATION} on a Node",
        "type": "object",
        "properties": {"version": {"const": 1}, "cards": cards},
        "required": document["required"],
        "$defs": {"card": {key: value for key, value in card.items() if key != "title"}},
    }
    # Python's word for the very end of a text is unknown to other languages' patterns.
    text: str = json.dumps(schema).replace("\\\\Z", "$")
    made: dict[str, Any] = json.loads(text)
    return made


if __name__ == "__main__":
    print(json.dumps(make_schema(), indent=2))  # noqa: T201 - what the command is for
