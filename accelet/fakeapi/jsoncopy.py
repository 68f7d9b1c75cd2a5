"""Copies of JSON: several times as fast as copy.deepcopy, which looks for what occurs twice."""

from typing import TypeVar

_Value = TypeVar("_Value")


def copy_json(value: _Value) -> _Value:
    """A value of the same content that shares no dict and no list with the given one."""
    if isinstance(value, dict):
        return {key: copy_json(one) for key, one in value.items()}  # type: ignore[return-value]  # of its kind
    if isinstance(value, list):
        return [copy_json(one) for one in value]  # type: ignore[return-value]  # of its kind
    return value
