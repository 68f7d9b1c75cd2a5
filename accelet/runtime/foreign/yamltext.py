"""YAML that anybody may have written, as values.

PyYAML's fast reader calls itself once a level: a few kilobytes of brackets would end the process. So the
depth is counted first, in a pass that does not.
"""

from typing import Any, Final

import yaml

DEEPEST: Final = 100
"""Deeper than anything that is read here."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ForeignYamlError(ValueError):
    """It is no YAML, or more than is read. `line` is from 1, None where it is not known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def load_yaml(content: bytes | str, *, deepest: int = DEEPEST, takes_aliases: bool = False) -> Any:
    """The one document in a text, None where it is empty.

    `takes_aliases`: references (`*name`) are followed. Who walks through all of the values must not allow
    them: a few stand for any amount.

    Raises:
        ForeignYamlError: with a reason to follow "it is": `not YAML: …`, `nested more than 100 deep`.
    """
    try:
        _bound(content, deepest, takes_aliases=takes_aliases)
        return yaml.load(content, Loader=_LOADER)  # noqa: S506 - one of the safe loaders
    except yaml.YAMLError as error:
        mark = error.problem_mark or error.context_mark if isinstance(error, yaml.MarkedYAMLError) else None
        problem = getattr(error, "problem", None) or " ".join(str(error).split())[:200]
        raise ForeignYamlError(f"not YAML: {problem}", mark.line + 1 if mark else None) from None
    except ForeignYamlError:
        raise
    except ValueError as error:
        raise ForeignYamlError(f"not YAML: {str(error)[:200]}") from None


def _bound(content: bytes | str, deepest: int, *, takes_aliases: bool) -> None:
    depth = 0
    for event in yaml.parse(content, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent) and not takes_aliases:
            raise ForeignYamlError("written with aliases (*name), which are not taken", _line(event))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise ForeignYamlError(f"nested more than {deepest} deep", _line(event))


def _line(event: yaml.Event) -> int | None:
    return event.start_mark.line + 1 if event.start_mark is not None else None
