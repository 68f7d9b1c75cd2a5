"""Reads manifests as people apply them: YAML documents or JSON, lists taken apart."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from accelet.cli.reading.objectfiles import UnreadableInputError

_MOST_BYTES: Final = 8 << 20
_MOST_VALUES: Final = 500_000
"""Aliases taken apart: a few lines of YAML can stand for more than any memory holds."""

_DEEPEST: Final = 100


def read_manifests(file: Path) -> list[dict[str, Any]]:
    """Every object in the file, or in the standard input for `-`, of whatever kind.

    Items of a `JobList` need not say their kind. Documents without content are skipped.

    Raises:
        UnreadableInputError: it cannot be read, is no YAML, or is not made of objects.
    """
    content = _read(file)
    try:
        nodes = list(yaml.compose_all(content, Loader=yaml.SafeLoader))
        for node in nodes:
            _bound(file, node)
        documents = list(yaml.safe_load_all(content))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UnreadableInputError(f"{file}{line}: neither YAML nor JSON: {error.problem}") from None
    except RecursionError:
        raise UnreadableInputError(f"{file}: nested more than {_DEEPEST} deep") from None
    except (yaml.YAMLError, ValueError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableInputError(f"{file}: neither YAML nor JSON: {text}") from None
    return [item for index, document in enumerate(documents) for item in _items(file, index, document)]


def _read(file: Path) -> bytes:
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableInputError(f"{file}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise UnreadableInputError(f"{file}: larger than {_MOST_BYTES} bytes")
    return content


def _items(file: Path, index: int, document: Any) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    place = f"{file}: document {index + 1}"
    if not isinstance(document, dict):
        raise UnreadableInputError(f"{place} is no Kubernetes object")
    kind = str(document.get("kind", ""))
    if not kind.endswith("List") or "items" not in document:
        yield document
        return
    items = document["items"]
    if not isinstance(items, list):
        raise UnreadableInputError(f"{place}: items is no list")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise UnreadableInputError(f"{place}: items[{number}] is no object")
        yield {"kind": kind.removesuffix("List"), **item}


def _bound(file: Path, node: yaml.Node) -> None:
    """Refuses what is too deep, or too large once its aliases are taken apart."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, depth: int) -> int:
        if depth > _DEEPEST:
            raise UnreadableInputError(f"{file}: nested more than {_DEEPEST} deep")
        if id(node) not in sizes:
            sizes[id(node)] = 1 + sum(size(child, depth + 1) for child in _children(node))
        if sizes[id(node)] > _MOST_VALUES:
            raise UnreadableInputError(f"{file}: more than {_MOST_VALUES} values")
        return sizes[id(node)]

    size(node, 0)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
