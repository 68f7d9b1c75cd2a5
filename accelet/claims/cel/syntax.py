"""Expressions as trees, and the parser that makes them (cel-spec, doc/langdef.md; macros included)."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final, TypeAlias

from accelet.claims.cel.failures import UnreadableError
from accelet.claims.cel.tokens import Kind, Token, split

DEEPEST: Final = 32
"""How deep parentheses, brackets and arguments may stand in each other: each takes a dozen calls to read."""

DEEPEST_TREE: Final = 100
"""How deep the tree may be: each operator of a chain, each `.` and `[]` counts; all of && or || once."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: object


@dataclass(frozen=True, slots=True)
class Name:
    text: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, `operand.?field` or, where `is_test`, `has(operand.field)`."""

    operand: "Node"
    field: str
    is_optional: bool = False
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[key]` or `operand[?key]`."""

    operand: "Node"
    key: "Node"
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)` or `target.name(arguments)`; operators are `_==_` and so on, as CEL names them."""

    name: str
    target: "Node | None"
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Join:
    """All of `parts` (`&&`), or, where `is_any`, one of them (`||`)."""

    is_any: bool
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    condition: "Node"
    then: "Node"
    otherwise: "Node"


@dataclass(frozen=True, slots=True)
class ListOf:
    """Items, each with whether it is left out where its optional has no value."""

    items: tuple[tuple["Node", bool], ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple["Node", "Node", bool], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro over the elements of `over`, with one variable or two (index or key, and value)."""

    macro: str
    over: "Node"
    variables: tuple[str, ...]
    condition: "Node | None"
    result: "Node | None"


@dataclass(frozen=True, slots=True)
class Bind:
    """`cel.bind(name, value, body)`: the value is worked out where it is first used."""

    name: str
    value: "Node"
    body: "Node"


@dataclass(frozen=True, slots=True)
class Within:
    """`operand.optMap(name, body)`, or optFlatMap where `is_flat`."""

    operand: "Node"
    name: str
    body: "Node"
    is_flat: bool


Node: TypeAlias = (
    Literal | Name | Select | Index | Call | Join | Choice | ListOf | MapOf | Loop | Bind | Within
)

_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    )
)
_RELATIONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_LOOPS: Final = {
    ("all", 2): "all",
    ("exists", 2): "exists",
    ("exists_one", 2): "exists_one",
    ("existsOne", 2): "exists_one",
    ("map", 2): "map",
    ("map", 3): "map",
    ("filter", 2): "filter",
    ("all", 3): "all",
    ("exists", 3): "exists",
    ("existsOne", 3): "exists_one",
    ("exists_one", 3): "exists_one",
    ("transformList", 3): "transformList",
    ("transformList", 4): "transformList",
    ("transformMap", 3): "transformMap",
    ("transformMap", 4): "transformMap",
}
"""Macros by name and number of arguments."""

_TWO_VARIABLES: Final = frozenset(
    {("all", 3), ("exists", 3), ("existsOne", 3), ("exists_one", 3)}
    | {(name, count) for name in ("transformList", "transformMap") for count in (3, 4)}
)
_CONDITIONS: Final = frozenset({"all", "exists", "exists_one", "filter"})


def parse(text: str) -> Node:
    """The tree of `text`.

    Raises:
        UnreadableError: it is no expression, nests deeper than DEEPEST, or uses what is not served here.
    """
    parser = _Parser(split(text))
    found = parser.expression()
    parser.expect_end()
    _check_depth(found)
    return found


def _check_depth(root: Node) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > DEEPEST_TREE:
            raise UnreadableError(f"it nests deeper than {DEEPEST_TREE} operations")
        level = [child for node in level for child in _children(node)]


def _children(node: Node) -> list[Node]:
    found: list[Node] = []
    todo: list[object] = [getattr(node, one.name) for one in fields(node)]
    while todo:
        part = todo.pop()
        if isinstance(part, tuple):
            todo.extend(part)
        elif isinstance(part, Node):
            found.append(part)
    return found


class _Parser:
    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = list(tokens)
        self._at = 0
        self._depth = 0

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableError(f"it nests deeper than {DEEPEST} parts")
        found = self._choice()
        self._depth -= 1
        return found

    def expect_end(self) -> None:
        if self._here.kind is not Kind.END:
            raise self._unexpected()

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    def _unexpected(self) -> UnreadableError:
        here = self._here
        if here.kind is Kind.END:
            return UnreadableError("it ends too early")
        return UnreadableError(f"{here.text[:20]!r} at character {here.at} is not expected there")

    def _takes(self, *signs: str) -> str | None:
        here = self._here
        if here.kind is Kind.SIGN and here.text in signs:
            self._at += 1
            return here.text
        return None

    def _expect(self, sign: str) -> None:
        if self._takes(sign) is None:
            raise self._unexpected()

    def _name(self) -> str:
        here = self._here
        if here.kind is not Kind.NAME or here.text in _RESERVED:
            raise self._unexpected()
        self._at += 1
        return here.text

    def _choice(self) -> Node:
        condition = self._joined(is_any=True)
        if not self._takes("?"):
            return condition
        then = self.expression()
        self._expect(":")
        return Choice(condition, then, self.expression())

    def _joined(self, *, is_any: bool) -> Node:
        def part() -> Node:
            return self._joined(is_any=False) if is_any else self._relation()

        parts = [part()]
        while self._takes("||" if is_any else "&&"):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Join(is_any, tuple(parts))

    def _relation(self) -> Node:
        return self._chain(self._sum, _RELATIONS)

    def _sum(self) -> Node:
        return self._chain(self._product, frozenset("+-"))

    def _product(self) -> Node:
        return self._chain(self._unary, frozenset("*/%"))

    def _chain(self, part: Callable[[], Node], signs: frozenset[str]) -> Node:
        """Parts from left to right."""
        found = part()
        while sign := self._operator(signs):
            found = Call(f"_{sign}_", None, (found, part()))
        return found

    def _operator(self, signs: frozenset[str]) -> str | None:
        here = self._here
        if here.kind is Kind.NAME and here.text == "in" and signs is _RELATIONS:
            self._at += 1
            return "in"
        return self._takes(*signs)

    def _unary(self) -> Node:
        """Two signs of a kind cancel each other, as in cel-go's parser."""
        if count := self._count("!"):
            found = self._member()
            return Call("!_", None, (found,)) if count % 2 else found
        count = self._count("-")
        here = self._here
        if count % 2 and here.kind is Kind.LITERAL and type(here.value) in {int, float}:
            self._tokens[self._at] = replace(here, value=-here.value)
            return self._member()
        found = self._member()
        return Call("-_", None, (found,)) if count % 2 else found

    def _count(self, sign: str) -> int:
        count = 0
        while self._takes(sign):
            count += 1
        return count

    def _member(self) -> Node:
        found = self._primary()
        while sign := self._takes(".", ".?", "[", "[?"):
            if sign == ".":
                found = self._field_or_call(found)
            elif sign == ".?":
                found = Select(found, self._name(), is_optional=True)
            else:
                found = Index(found, self.expression(), is_optional=sign == "[?")
                self._expect("]")
        return found

    def _field_or_call(self, operand: Node) -> Node:
        field = self._name()
        if not self._takes("("):
            return Select(operand, field)
        return _called(field, operand, self._arguments())

    def _arguments(self) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._takes(")"):
            found.append(self.expression())
            if not self._takes(","):
                self._expect(")")
                break
        return tuple(found)

    def _primary(self) -> Node:
        here = self._here
        if here.kind is Kind.LITERAL:
            self._at += 1
            return Literal(_checked(here))
        if self._takes("("):
            found = self.expression()
            self._expect(")")
            return found
        if self._takes("["):
            return self._list()
        if self._takes("{"):
            return self._map()
        self._takes(".")
        name = self._name()
        return _called(name, None, self._arguments()) if self._takes("(") else Name(name)

    def _list(self) -> Node:
        items: list[tuple[Node, bool]] = []
        while not self._takes("]"):
            is_optional = self._takes("?") is not None
            items.append((self.expression(), is_optional))
            if not self._takes(","):
                self._expect("]")
                break
        return ListOf(tuple(items))

    def _map(self) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._takes("}"):
            is_optional = self._takes("?") is not None
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression(), is_optional))
            if not self._takes(","):
                self._expect("}")
                break
        return MapOf(tuple(entries))


def _checked(token: Token) -> object:
    value = token.value
    if type(value) is int and value == 2**63:
        raise UnreadableError(f"{token.text} is too large for an integer")
    return value


def _called(name: str, target: Node | None, arguments: tuple[Node, ...]) -> Node:
    """A call, or what a macro stands for."""
    if name == "has" and target is None and len(arguments) == 1:
        return _test(arguments[0])
    if target == Name("cel") and name == "bind" and len(arguments) == 3:
        return Bind(_variable(arguments[0]), arguments[1], arguments[2])
    if target is not None and name in {"optMap", "optFlatMap"} and len(arguments) == 2:
        return Within(target, _variable(arguments[0]), arguments[1], is_flat=name == "optFlatMap")
    if target is not None and (name, len(arguments)) in _LOOPS:
        return _loop(name, target, arguments)
    return Call(name, target, arguments)


def _test(argument: Node) -> Node:
    if not isinstance(argument, Select) or argument.is_optional:
        raise UnreadableError("has() takes a field: has(a.b)")
    return Select(argument.operand, argument.field, is_test=True)


def _loop(name: str, over: Node, arguments: tuple[Node, ...]) -> Node:
    count = 2 if (name, len(arguments)) in _TWO_VARIABLES else 1
    variables = tuple(_variable(one) for one in arguments[:count])
    rest = arguments[count:]
    macro = _LOOPS[name, len(arguments)]
    if macro in _CONDITIONS:
        return Loop(macro, over, variables, rest[0], None)
    return Loop(macro, over, variables, rest[0] if len(rest) == 2 else None, rest[-1])


def _variable(node: Node) -> str:
    if not isinstance(node, Name):
        raise UnreadableError("a macro takes a name for its variable")
    return node.text
