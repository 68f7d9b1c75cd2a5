"""Selectors: expressions made ready once, then asked of many devices.

Rules are those of kube-scheduler 1.36 (k8s.io/dynamic-resource-allocation, cel/compile.go): a device is a
driver, attributes and capacities by domain. The answer is a bool, or an attribute that is one. `&&` and `||`
take the side that decides, whichever it is; an error of the other side is then absorbed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from accelet.claims.cel import syntax
from accelet.claims.cel.failures import EvaluationError, SpentError, UnknownError, UnreadableError
from accelet.claims.cel.functions import FUNCTIONS, METHODS, NAMESPACES
from accelet.claims.cel.operators import find_key
from accelet.claims.cel.signatures import Function, no_overload
from accelet.claims.cel.values import Domains, Optional, Value, type_name
from accelet.claims.cel.work import Work

WORK: Final = 20_000
"""Units for one device; a selector of the kind that people write takes 20 to 200."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer. `is_ours`: kube-scheduler may have one that accelet does not know; else it fails too."""

    reason: str
    is_ours: bool = False


Answer = bool | NoAnswer


@dataclass(frozen=True, slots=True)
class SeenDevice:
    """What selectors see of a device: values by domain and name."""

    driver: str
    attributes: Mapping[str, Mapping[str, Value]]
    capacity: Mapping[str, Mapping[str, Value]]
    allows_multiple: bool = False

    def value(self) -> Mapping[str, Value]:
        return {
            "driver": self.driver,
            "attributes": Domains(self.attributes),
            "capacity": Domains(self.capacity),
            "allowMultipleAllocations": self.allows_multiple,
        }


_LAZY: Final = frozenset({"or", "orValue"})
"""Methods of optionals whose argument is worked out only where there is no value."""


class _Scope:
    """What the names of an expression stand for while it is evaluated for one device."""

    __slots__ = ("values", "work")

    def __init__(self, device: Value, places: int, work: Work) -> None:
        self.values: list[Value] = [device, *[None] * (places - 1)]
        self.work = work


Step = Callable[[_Scope], Value]


@dataclass(frozen=True, slots=True)
class Selector:
    """One expression, ready; `failure` says why it is not."""

    text: str
    step: Step | None
    places: int = 1
    failure: NoAnswer | None = None

    def answer(self, device: SeenDevice, work: Work | None = None) -> Answer:
        """Whether the selector takes `device`. `work` limits what this and other answers cost together."""
        if self.step is None:
            return self.failure or NoAnswer("it was not read", is_ours=True)
        scope = _Scope(device.value(), self.places, work or Work(WORK))
        try:
            found = self.step(scope)
        except EvaluationError as error:
            return NoAnswer(str(error))
        except (SpentError, UnknownError) as error:
            return NoAnswer(str(error), is_ours=True)
        return (
            found if isinstance(found, bool) else NoAnswer(f"it says a {type_name(found)}, not true or false")
        )


@lru_cache(maxsize=1024)
def read_selector(text: str) -> Selector:
    """`text` made ready. Never raises: what cannot be read has a failure that says so."""
    try:
        compiler = _Compiler()
        return Selector(text, compiler.compile(syntax.parse(text)), compiler.places)
    except UnreadableError as error:
        return Selector(text, None, failure=NoAnswer(str(error), is_ours=True))


class _Compiler:
    """Turns a tree into steps. Every variable of a macro has a place of its own, `places` in all.

    No two share one: what `cel.bind` names is worked out in the midst of whatever uses it.
    """

    def __init__(self) -> None:
        self.places = 1
        self._known: list[tuple[str, int]] = [("device", 0)]

    def compile(self, node: syntax.Node) -> Step:
        return _COMPILERS[type(node)](self, node)

    def inside(self, names: Sequence[str], *nodes: syntax.Node | None) -> tuple[int, Sequence[Step]]:
        """The place of the first of `names`, and the steps of `nodes`, where they are known."""
        first, known = self.places, len(self._known)
        self.places += len(names)
        self._known.extend(zip(names, range(first, self.places), strict=True))
        found = [self.compile(node) if node is not None else _always for node in nodes]
        del self._known[known:]
        return first, found

    def place(self, name: str) -> int:
        """Where the value of `name` is kept.

        Raises:
            UnreadableError: nothing has that name.
        """
        for known, place in reversed(self._known):
            if known == name:
                return place
        raise UnreadableError(f"{name[:40]!r} is not known")

    def knows(self, name: str) -> bool:
        return any(known == name for known, _ in self._known)


def _always(_: _Scope) -> Value:
    return True


def _literal(_: _Compiler, node: syntax.Literal) -> Step:
    value = node.value

    def literal(scope: _Scope) -> Value:
        scope.work.spend()
        return value

    return literal


def _name(compiler: _Compiler, node: syntax.Name) -> Step:
    place = compiler.place(node.text)

    def name(scope: _Scope) -> Value:
        scope.work.spend()
        value = scope.values[place]
        return value.get(scope) if isinstance(value, _Lazy) else value

    return name


def _select(compiler: _Compiler, node: syntax.Select) -> Step:
    operand, field = compiler.compile(node.operand), node.field
    if node.is_test:
        return lambda scope: _is_there(operand(scope), field)
    is_optional = node.is_optional

    def select(scope: _Scope) -> Value:
        scope.work.spend()
        return _look_up(operand(scope), field, is_optional=is_optional)

    return select


def _index(compiler: _Compiler, node: syntax.Index) -> Step:
    operand, key, is_optional = compiler.compile(node.operand), compiler.compile(node.key), node.is_optional

    def index(scope: _Scope) -> Value:
        scope.work.spend()
        return _look_up(operand(scope), key(scope), is_optional=is_optional)

    return index


def _is_there(container: Value, field: str) -> bool:
    if isinstance(container, Optional):
        return container.is_there and _is_there(container.value, field)
    if not isinstance(container, Mapping):
        raise no_overload("has", (container,))
    return isinstance(container, Domains) or field in container


def _look_up(container: Value, key: Value, *, is_optional: bool) -> Value:
    if isinstance(container, Optional):
        if not container.is_there:
            return container
        return _look_up(container.value, key, is_optional=True)
    found = _found(container, key)
    if is_optional:
        return Optional() if found is None else Optional(found[0], is_there=True)
    if found is None:
        raise EvaluationError(f"no such key: {str(key)[:80]}")
    return found[0]


def _found(container: Value, key: Value) -> tuple[Value] | None:
    if isinstance(container, Domains):
        if not isinstance(key, str):
            raise no_overload("[]", (container, key))
        return (container[key],)
    if isinstance(container, Mapping):
        there = find_key(container, key)
        return None if there is None else (container[there[0]],)
    if not isinstance(container, tuple):
        raise no_overload("[]", (container, key))
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if not isinstance(key, int) or isinstance(key, bool):
        raise no_overload("[]", (container, key))
    return (container[key],) if 0 <= key < len(container) else None


def _call(compiler: _Compiler, node: syntax.Call) -> Step:
    if node.name == "_in_" and node.arguments[1] == syntax.ListOf(()):
        return lambda _: False  # cel-go leaves the left side out, though it should fail
    if node.name in _LAZY and node.target is not None and len(node.arguments) == 1:
        return _alternative(compiler, node.target, node.arguments[0], is_value=node.name == "orValue")
    function, target = _function(compiler, node)
    steps = tuple(map(compiler.compile, ([target] if target is not None else []) + list(node.arguments)))

    def call(scope: _Scope) -> Value:
        scope.work.spend()
        return function(scope.work, [step(scope) for step in steps])

    return call


def _alternative(compiler: _Compiler, target: syntax.Node, otherwise: syntax.Node, *, is_value: bool) -> Step:
    first, second = compiler.compile(target), compiler.compile(otherwise)

    def alternative(scope: _Scope) -> Value:
        scope.work.spend()
        value = first(scope)
        if not isinstance(value, Optional):
            raise no_overload("orValue" if is_value else "or", (value,))
        if value.is_there:
            return value.value if is_value else value
        found = second(scope)
        if not is_value and not isinstance(found, Optional):
            raise no_overload("or", (value, found))
        return found

    return alternative


def _function(compiler: _Compiler, node: syntax.Call) -> tuple[Function, syntax.Node | None]:
    name, target = node.name, node.target
    if isinstance(target, syntax.Name) and target.text in NAMESPACES and not compiler.knows(target.text):
        name, target = f"{target.text}.{name}", None
    known = METHODS if target is not None else FUNCTIONS
    if name not in known:
        raise UnreadableError(f"{name[:40]}() is not served")
    return known[name], target


def _join(compiler: _Compiler, node: syntax.Join) -> Step:
    steps, decides = tuple(map(compiler.compile, node.parts)), node.is_any

    def join(scope: _Scope) -> Value:
        failed: EvaluationError | None = None
        for step in steps:
            try:
                value = step(scope)
                if value is decides:
                    return value
                if not isinstance(value, bool):
                    raise no_overload("||" if decides else "&&", (value,))
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not decides

    return join


def _choice(compiler: _Compiler, node: syntax.Choice) -> Step:
    condition, then, otherwise = map(compiler.compile, (node.condition, node.then, node.otherwise))

    def choice(scope: _Scope) -> Value:
        value = condition(scope)
        if not isinstance(value, bool):
            raise no_overload("?:", (value,))
        return then(scope) if value else otherwise(scope)

    return choice


def _list(compiler: _Compiler, node: syntax.ListOf) -> Step:
    items = [(compiler.compile(item), is_optional) for item, is_optional in node.items]

    def make(scope: _Scope) -> Value:
        scope.work.make(len(items))
        found: list[Value] = []
        for step, is_optional in items:
            value = step(scope)
            if not is_optional:
                found.append(value)
            elif not isinstance(value, Optional):
                raise no_overload("[?]", (value,))
            elif value.is_there:
                found.append(value.value)
        return tuple(found)

    return make


def _map(compiler: _Compiler, node: syntax.MapOf) -> Step:
    entries = [(compiler.compile(key), compiler.compile(value), opt) for key, value, opt in node.entries]

    def make(scope: _Scope) -> Value:
        scope.work.make(len(entries))
        found: dict[Value, Value] = {}
        for key_step, value_step, is_optional in entries:
            key, value = key_step(scope), value_step(scope)
            if is_optional:
                if not isinstance(value, Optional):
                    raise no_overload("{?}", (value,))
                if not value.is_there:
                    continue
                value = value.value
            _put(found, key, value)
        return found

    return make


def _put(found: dict[Value, Value], key: Value, value: Value) -> None:
    if not isinstance(key, str | int):
        raise EvaluationError(f"a {type_name(key)} is no key of a map")
    if find_key(found, key) is not None:
        raise EvaluationError("a map has a key twice")
    if key in found:
        raise UnknownError("a map with keys that are alike across their types is not served")
    found[key] = value


class _Lazy:
    """The value of `cel.bind`: worked out where it is first used, and kept."""

    __slots__ = ("_failed", "_known", "_step", "_value")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._known = False
        self._value: Value = None
        self._failed: EvaluationError | None = None

    def get(self, scope: _Scope) -> Value:
        if not self._known:
            try:
                self._value = self._step(scope)
            except EvaluationError as error:
                self._failed = error
            self._known = True
        if self._failed is not None:
            raise self._failed
        return self._value


def _bind(compiler: _Compiler, node: syntax.Bind) -> Step:
    value = compiler.compile(node.value)
    place, (body,) = compiler.inside([node.name], node.body)

    def bind(scope: _Scope) -> Value:
        scope.values[place] = _Lazy(value)
        return body(scope)

    return bind


def _within(compiler: _Compiler, node: syntax.Within) -> Step:
    operand = compiler.compile(node.operand)
    place, (body,) = compiler.inside([node.name], node.body)
    is_flat = node.is_flat

    def within(scope: _Scope) -> Value:
        value = operand(scope)
        if not isinstance(value, Optional):
            raise no_overload("optMap", (value,))
        if not value.is_there:
            return value
        scope.values[place] = value.value
        found = body(scope)
        return found if is_flat else Optional(found, is_there=True)

    return within


@dataclass(frozen=True, slots=True)
class _Loop:
    """A macro, ready. `condition` and `result` see the loop's variables from `place` on."""

    macro: str
    over: Step
    place: int
    width: int
    condition: Step
    result: Step

    def __call__(self, scope: _Scope) -> Value:
        over = self.over(scope)
        if not isinstance(over, tuple | Mapping):
            raise no_overload(self.macro, (over,))
        return _RUNS[self.macro](self, scope, over)

    def sets(
        self, scope: _Scope, over: tuple[Value, ...] | Mapping[Value, Value], at: int, key: Value
    ) -> None:
        scope.work.spend(2)
        if self.width == 1:
            scope.values[self.place] = key
        elif isinstance(over, tuple):
            scope.values[self.place : self.place + 2] = [at, key]
        else:
            scope.values[self.place : self.place + 2] = [key, over[key]]

    def takes(self, scope: _Scope) -> bool:
        value = self.condition(scope)
        if not isinstance(value, bool):
            raise no_overload(self.macro, (value,))
        return value


_Over = tuple[Value, ...] | Mapping[Value, Value]


def _run_until(loop: _Loop, scope: _Scope, over: _Over) -> bool:
    """`all` and `exists`: one element decides, and absorbs the errors of others."""
    decides = loop.macro == "exists"
    failed: EvaluationError | None = None
    for at, key in enumerate(over):
        loop.sets(scope, over, at, key)
        try:
            if loop.takes(scope) is decides:
                return decides
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return not decides


def _run_count(loop: _Loop, scope: _Scope, over: _Over) -> bool:
    count = 0
    for at, key in enumerate(over):
        loop.sets(scope, over, at, key)
        count += loop.takes(scope)
    return count == 1


def _run_list(loop: _Loop, scope: _Scope, over: _Over) -> Value:
    found: list[Value] = []
    for at, key in enumerate(over):
        loop.sets(scope, over, at, key)
        if loop.takes(scope):
            scope.work.spend()
            found.append(key if loop.macro == "filter" else loop.result(scope))
    return tuple(found)


def _run_map(loop: _Loop, scope: _Scope, over: _Over) -> Value:
    found: dict[Value, Value] = {}
    for at, key in enumerate(over):
        loop.sets(scope, over, at, key)
        if loop.takes(scope):
            _put(found, at if isinstance(over, tuple) else key, loop.result(scope))
    return found


_RUNS: Final[Mapping[str, Callable[[_Loop, _Scope, _Over], Value]]] = {
    "all": _run_until,
    "exists": _run_until,
    "exists_one": _run_count,
    "filter": _run_list,
    "map": _run_list,
    "transformList": _run_list,
    "transformMap": _run_map,
}


def _loop(compiler: _Compiler, node: syntax.Loop) -> Step:
    over = compiler.compile(node.over)
    place, (condition, result) = compiler.inside(node.variables, node.condition, node.result)
    return _Loop(node.macro, over, place, len(node.variables), condition, result)


_COMPILERS: Final[Mapping[type, Callable[..., Step]]] = {
    syntax.Literal: _literal,
    syntax.Name: _name,
    syntax.Select: _select,
    syntax.Index: _index,
    syntax.Call: _call,
    syntax.Join: _join,
    syntax.Choice: _choice,
    syntax.ListOf: _list,
    syntax.MapOf: _map,
    syntax.Loop: _loop,
    syntax.Bind: _bind,
    syntax.Within: _within,
}
