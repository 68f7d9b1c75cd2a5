"""The pods of examples/pods, for tests that read them and tests that make them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "pods").glob("*.yaml"))


def example_objects(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all(path.read_text())


def example_pods(path: Path) -> Iterator[dict[str, Any]]:
    """The pods a file has, or those its templates make."""
    for document in example_objects(path):
        name = {"name": document["metadata"]["name"]}
        template = document["spec"].get("template")
        if template is None:
            yield document
        else:
            yield {"apiVersion": "v1", "kind": "Pod", **template, "metadata": template["metadata"] | name}
