"""Reads what the offline commands work on: objects as kubectl prints them, and the scheduler's settings."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject
from accelet.runtime.foreign.nesting import decode_nested
from accelet.runtime.settings import SettingsError
from accelet.scheduler.settings import DEFAULT_SETTINGS, SchedulerSettings, read_settings

_T = TypeVar("_T")
_OBJECT = msgspec.json.Decoder(dict[str, object])
OBJECT_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
"""A file, or `-` for what comes in."""


class UnreadableInputError(click.ClickException):
    """Input that cannot be read; the text names the file, the object and the field."""

    exit_code = 2


def read_objects(file: Path, kind: str | None, parse: Callable[[RawObject], _T]) -> list[_T]:
    """The objects of a file, all of `kind` (None: of any), as values.

    Raises:
        UnreadableInputError: the file or one of its objects cannot be read.
    """
    values = []
    for index, item in enumerate(_items(file)):
        place = f"{file}: items[{index}]"
        said = item.get("kind", kind)
        if kind and said != kind:
            raise UnreadableInputError(f"{place}{_called(item)} is a {said}, not a {kind}")
        try:
            values.append(parse({**item, "kind": said}))
        except MalformedObjectError as error:
            raise UnreadableInputError(f"{place}: {error}") from None
    return values


def _items(file: Path) -> list[dict[str, object]]:
    """The raw objects of a list as kubectl prints it, or the one object that a file holds."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        found = decode_nested(_OBJECT.decode, content)
    except OSError as error:
        raise UnreadableInputError(f"{file}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableInputError(f"{file}: not a Kubernetes list in JSON: {error}") from None
    items: object = found.get("items", [found] if "metadata" in found else None)
    if not isinstance(items, list):
        raise UnreadableInputError(
            f'{file}: there is no list of objects under "items"; give the output of `kubectl get … -o json`'
        )
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise UnreadableInputError(f"{file}: items[{index}] is not an object")
    # Items of a NodeList or PodList, unlike those of a List, need not say what they are.
    of_list = str(found.get("kind", "")).removesuffix("List")
    return [{"kind": of_list, **item} for item in items] if of_list else items


def _called(item: dict[str, object]) -> str:
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f" ({name})" if name else ""


def refuse_twins(file: Path, kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UnreadableInputError(f"{file}: {kind} {name} is there twice")
        seen.add(name)


def read_scheduler_settings(config: Path | None) -> SchedulerSettings:
    """The settings in a file, the defaults without one.

    Raises:
        UnreadableInputError: they are wrong, or the file cannot be read.
    """
    try:
        return read_settings(config) if config else DEFAULT_SETTINGS
    except SettingsError as error:
        raise UnreadableInputError(str(error)) from None
