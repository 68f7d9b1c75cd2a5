"""Reads YAML into typed values and reports every mistake at once, each with its line."""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

MAX_BYTES = 1 << 20

_S = TypeVar("_S")


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: in which file and line (from 1), at which key (`resources[2].shares`), and what to do."""

    file: str
    line: int
    where: str
    sentence: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: "
        return place + (f"{self.where}: {self.sentence}" if self.where else self.sentence)


class SettingsError(Exception):
    """The settings are wrong; `problems` has every mistake."""

    def __init__(self, problems: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


FieldPath = tuple[str | int, ...]
"""Where in a value that was read: `("match", "driver", 0)`."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What fields that are each well formed may not say together: the one to change, and a sentence.

    A Struct that can tell has a method `problems()` which returns them.
    """

    field: FieldPath
    sentence: str


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """The settings of a kind by the names they have in a file. To find them out takes longer than to read."""
    return {known.encode_name: known for known in msgspec.structs.fields(kind)}


@dataclass(slots=True)
class Reader:
    """Reads the nodes of one YAML file and gathers the problems met on the way.

    Types are msgspec Structs, sequences, dicts, unions with None, and what msgspec converts from a scalar.
    A value that could not be read comes back as None; `problems` then says why.
    """

    file: str
    problems: list[Mistake] = field(default_factory=list)

    def parse(self, text: str) -> yaml.Node | None:
        """The root node of a YAML text, None for one without content."""
        if len(text.encode()) > MAX_BYTES:
            self.problems.append(Mistake(self.file, 1, "", f"the file is larger than {MAX_BYTES} bytes"))
            return None
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self.problems.append(
                Mistake(self.file, mark.line + 1 if mark else 1, "", f"not YAML: {error.problem}")
            )
        except (yaml.YAMLError, RecursionError) as error:
            self.problems.append(Mistake(self.file, 1, "", f"not YAML: {str(error).splitlines()[0]}"))
        return None

    def report(self, node: yaml.Node, where: str, sentence: str) -> None:
        self.problems.append(Mistake(self.file, node.start_mark.line + 1, where, sentence))

    def read(self, node: yaml.Node, kind: Any, where: str = "") -> Any:
        """The value of type `kind` that `node` describes."""
        kind, metadata = _without_annotation(kind)
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            return self._read_union(node, kind, where)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.read_struct(node, kind, where)
        if origin in (list, tuple):
            return self._read_sequence(node, kind, where, metadata)
        if origin is dict and isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, kind, where, metadata)
        return self._read_scalar(node, Annotated[(kind, *metadata)] if metadata else kind, where)

    def entries(
        self, node: yaml.Node, where: str, known: Sequence[str]
    ) -> dict[str, tuple[yaml.Node, yaml.Node]] | None:
        """A mapping's key and value nodes by name; reports unknown and repeated keys."""
        if not isinstance(node, yaml.MappingNode):
            self.report(node, where, f"must be a mapping, not {_describe(node)}")
            return None
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                self.report(key, join(where, name), "is given twice")
            elif name not in known:
                import difflib  # noqa: PLC0415  for mistakes alone

                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
                self.report(key, join(where, name), f"is not a setting{hint}")
            else:
                found[name] = (key, value)
        return found

    def read_struct(self, node: yaml.Node, kind: type[msgspec.Struct], where: str) -> Any:
        fields = fields_of(kind)
        entries = self.entries(node, where, list(fields))
        if entries is None:
            return None
        before = len(self.problems)
        values = {
            fields[name].name: self.read(value, fields[name].type, join(where, name))
            for name, (_, value) in entries.items()
        }
        for name, known in fields.items():
            if known.required and name not in entries:
                self.report(node, where, f"{name} is missing")
        if len(self.problems) > before:
            return None
        made = kind(**values)
        self.check(made, node, where)
        return made

    def check(self, made: object, node: yaml.Node, where: str) -> None:
        """Reports what the value itself says is contradictory, at the line of the field it names."""
        find: Callable[[], Sequence[Contradiction]] | None = getattr(made, "problems", None)
        for found in find() if find is not None else ():
            place = where
            for part in found.field:
                place = f"{place}[{part}]" if isinstance(part, int) else join(place, part)
            self.report(_node_at(node, found.field), place, found.sentence)

    def _read_union(self, node: yaml.Node, kind: Any, where: str) -> Any:
        choices = [choice for choice in get_args(kind) if choice is not type(None)]
        if node.tag == "tag:yaml.org,2002:null" and len(choices) < len(get_args(kind)):
            return None
        if len(choices) == 1:
            return self.read(node, choices[0], where)
        structured = [choice for choice in choices if _fits_shape(node, choice)]
        if len(structured) == 1:
            return self.read(node, structured[0], where)
        return self._read_scalar(node, kind, where)

    def _read_sequence(self, node: yaml.Node, kind: Any, where: str, metadata: tuple[Any, ...]) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            self.report(node, where, f"must be a list, not {_describe(node)}")
            return None
        least = max((item.min_length or 0 for item in metadata if isinstance(item, msgspec.Meta)), default=0)
        if len(node.value) < least:
            self.report(node, where, "must not be empty" if least == 1 else f"needs {least} entries")
            return None
        items = [self.read(item, get_args(kind)[0], f"{where}[{i}]") for i, item in enumerate(node.value)]
        return tuple(items) if get_origin(kind) is tuple else items

    def _read_mapping(self, node: yaml.MappingNode, kind: Any, where: str, metadata: tuple[Any, ...]) -> Any:
        """Each value by itself, so that a mistake is told where it is; then the whole."""
        key_kind, value_kind = get_args(kind)
        before, found = len(self.problems), {}
        for key, value in node.value:
            name = self._read_scalar(key, key_kind, where)
            if name is None:
                continue
            if name in found:
                self.report(key, join(where, str(name)), "is given twice")
            found[name] = self.read(value, value_kind, join(where, str(name)))
        if len(self.problems) > before:
            return None
        try:
            return msgspec.convert(found, Annotated[(kind, *metadata)] if metadata else kind)
        except msgspec.ValidationError as error:
            self.report(node, where, f"{_plain_words(str(error))}, not {len(found)} entries")
            return None

    def _read_scalar(self, node: yaml.Node, kind: Any, where: str) -> Any:
        plain, _ = _without_annotation(kind)
        if isinstance(node, yaml.ScalarNode) and plain is str and node.tag.endswith((":int", ":float")):
            value: object = node.value  # as written: 0x56c0 stays what the user sees
        else:
            try:
                value = _construct(node)
            except (yaml.YAMLError, ValueError) as error:
                self.report(node, where, f"cannot be read: {str(error).splitlines()[0]}")
                return None
        if get_origin(plain) is Literal and value not in get_args(plain):
            allowed = ", ".join(map(str, get_args(plain)))
            self.report(node, where, f"must be one of {allowed}, not {_describe(node)}")
            return None
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            wanted = _described_type(kind) or _plain_words(str(error))
            self.report(node, where, f"{wanted}, not {_describe(node)}")
            return None


def join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _construct(node: yaml.Node) -> object:
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_document(node)
    finally:
        constructor.dispose()


def _without_annotation(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(kind) is Annotated:
        return get_args(kind)[0], tuple(kind.__metadata__)
    return kind, ()


def _fits_shape(node: yaml.Node, kind: Any) -> bool:
    kind, _ = _without_annotation(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return isinstance(node, yaml.MappingNode)
    if get_origin(kind) in (list, tuple):
        return isinstance(node, yaml.SequenceNode)
    return isinstance(node, yaml.ScalarNode)


def _node_at(node: yaml.Node, field: FieldPath) -> yaml.Node:
    for part in field:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), node)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
    return node


def _describe(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return repr(node.value) if node.value else "nothing"


def _described_type(kind: Any) -> str | None:
    """What a type says of itself where a pattern alone would tell a person little."""
    _, metadata = _without_annotation(kind)
    described = [item.description for item in metadata if isinstance(item, msgspec.Meta) and item.pattern]
    return f"must be {described[0]}" if described and described[0] else None


def _plain_words(message: str) -> str:
    """The message of msgspec in the words of a person: "Expected `int` >= 1" as "must be int >= 1"."""
    return (
        message.split(", got")[0]
        .split(" - at")[0]
        .replace("Expected ", "must be ")
        .replace("`", "")
        .replace("must be object", "must be a mapping")
    )


def read_settings_file(file: Path, kind: type[_S]) -> _S:
    """The settings in a file, as a Struct of `kind`.

    Raises:
        SettingsError: they are wrong, or the file cannot be read; has every mistake.
    """
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([Mistake(str(file), 1, "", f"cannot be read: {error}")]) from None
    return read_settings_text(text, str(file), kind)


def read_settings_text(text: str, file: str, kind: type[_S]) -> _S:
    """The settings that `text`, the content of `file`, says.

    Raises:
        SettingsError: they are wrong; has every mistake.
    """
    reader = Reader(file)
    node = reader.parse(text)
    settings = reader.read(node, kind) if node is not None else None
    if reader.problems or not isinstance(settings, kind):
        raise SettingsError(reader.problems or [Mistake(file, 1, "", "the file is empty; say version: v1")])
    return settings
