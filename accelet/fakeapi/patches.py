"""JSON patch (RFC 6902) and merge patch (RFC 7386), as far as an API server takes them."""

from typing import Any

from accelet.fakeapi.jsoncopy import copy_json


class PatchError(Exception):
    """The patch does not fit the object."""


def json_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    document = copy_json(document)
    for operation in operations:
        _apply(document, operation)
    return document


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy_json(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def _apply(document: Any, operation: dict[str, Any]) -> None:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    parent = document
    for step in steps[:-1]:
        parent = _child(parent, step)
    last = steps[-1]
    match operation["op"]:
        case "test":
            if _child(parent, last) != operation["value"]:
                raise PatchError(f"testing path {operation['path']} value failed")
        case "add" if isinstance(parent, list):
            parent.insert(len(parent) if last == "-" else _index(parent, last, 1), operation["value"])
        case "add":
            parent[last] = operation["value"]
        case "replace":
            _child(parent, last)
            parent[_index(parent, last) if isinstance(parent, list) else last] = operation["value"]
        case "remove":
            _child(parent, last)
            del parent[_index(parent, last) if isinstance(parent, list) else last]
        case other:
            raise PatchError(f"unexpected kind: {other}")


def _child(parent: Any, step: str) -> Any:
    if isinstance(parent, list):
        return parent[_index(parent, step)]
    if not isinstance(parent, dict) or step not in parent:
        raise PatchError(f"path does not exist: {step}")
    return parent[step]


def _index(parent: list[Any], step: str, beyond: int = 0) -> int:
    if not step.isdecimal() or int(step) >= len(parent) + beyond:
        raise PatchError(f"unable to access invalid index: {step}")
    return int(step)
