"""Random selectors and devices, near enough to sense that both answers and all failures come up."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

DRIVERS: Final = ("gpu.example.com",) * 3 + ("net.example.com",)
_DOMAINS: Final = ("gpu.example.com",) * 5 + ("net.example.com", "resource.kubernetes.io", "no.such")
_NAMES: Final = ("type", "model", "index", "ready", "version", "numa", "missing")
_AMOUNTS: Final = ("memory", "cores", "missing")
_TEXTS: Final = ("gpu", "mig", "", "A100-SXM4", "é", "a.b", "0", "7")
_WHOLE: Final = ("0", "1", "2", "-1", "7", "9223372036854775807")
_VERSIONS: Final = ("1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0")
_QUANTITIES: Final = ("1", "1500m", "40Gi", "10Gi", "1k", "0")
_PATTERNS: Final = ("^A[0-9]+", "g.u", "(a|g)+pu?", "[^a-f]*$", "", "(?i)GPU", r"\d{1,3}", "x*?i")


@dataclass(frozen=True, slots=True)
class Question:
    """An expression and the device it is asked of, as a ResourceSlice has it."""

    expression: str
    driver: str
    attributes: dict[str, Any]
    capacity: dict[str, Any]
    allows_multiple: bool = False

    def line(self) -> str:
        return json.dumps(
            {
                "expression": self.expression,
                "driver": self.driver,
                "attributes": self.attributes,
                "capacity": self.capacity,
                "allowMultipleAllocations": self.allows_multiple,
            }
        )


def draw(source: random.Random) -> Question:
    driver = source.choice(DRIVERS)
    attributes = {
        "type": {"string": source.choice(_TEXTS)},
        "model": {"string": source.choice(_TEXTS)},
        "index": {"int": int(source.choice(_WHOLE))},
        "resource.kubernetes.io/numa": {"int": source.randrange(3)},
        "ready": {"bool": source.random() < 0.5},
        "version": {"version": source.choice(_VERSIONS)},
    }
    capacity = {
        "memory": {"value": source.choice(_QUANTITIES)},
        "cores": {"value": source.choice(_QUANTITIES)},
    }
    kept = {name: value for name, value in attributes.items() if source.random() < 0.8}
    return Question(_truth(source, 3), driver, kept, capacity, source.random() < 0.5)


Writer = Callable[[random.Random, int], str]


def _one_of(source: random.Random, depth: int, leaves: Sequence[Writer], others: Sequence[Writer]) -> str:
    chosen = leaves if depth <= 0 else (*leaves, *others, *others)
    return source.choice(chosen)(source, depth - 1)


def _domain(source: random.Random) -> str:
    return source.choice(_DOMAINS)


def _attribute(source: random.Random, _: int = 0) -> str:
    name = source.choice(_NAMES)
    form = source.choice(('["{}"].{}', '["{}"]["{}"]'))
    return "device.attributes" + form.format(_domain(source), name)


def _amount(source: random.Random, _: int = 0) -> str:
    return f'device.capacity["{_domain(source)}"].{source.choice(_AMOUNTS)}'


def _text_literal(source: random.Random, _: int = 0) -> str:
    return json.dumps(source.choice(_TEXTS), ensure_ascii=False)


def _pattern(source: random.Random) -> str:
    return f'r"{source.choice(_PATTERNS)}"'


def _text(source: random.Random, depth: int) -> str:
    def at(count: int) -> Writer:
        names = ("charAt({})", "substring({})") if count == 1 else ("substring({}, {})",)
        return lambda s, d: f"{_text(s, d)}." + s.choice(names).format(*(_whole(s, 0) for _ in range(count)))

    return _one_of(
        source,
        depth,
        (_text_literal, _attribute, lambda s, d: "device.driver"),
        (
            lambda s, d: f"({_text(s, d)} + {_text(s, d)})",
            lambda s, d: f"{_text(s, d)}.{s.choice(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda s, d: f"{_text(s, d)}.replace({_text_literal(s)}, {_text_literal(s)})",
            lambda s, d: f"{_text(s, d)}.find({_pattern(s)})",
            lambda s, d: f"{_list(s, d)}.join({_text_literal(s)})",
            lambda s, d: f"string({_whole(s, d)})",
            lambda s, d: f'device.attributes["{_domain(s)}"].?{s.choice(_NAMES)}.orValue({_text(s, d)})',
            at(1),
            at(2),
        ),
    )


def _list(source: random.Random, depth: int) -> str:
    return _one_of(
        source,
        depth,
        (lambda s, d: f"[{', '.join(_text(s, 0) for _ in range(s.randrange(3)))}]",),
        (
            lambda s, d: f"{_text(s, d)}.split({_text_literal(s)})",
            lambda s, d: f"{_list(s, d)}.map(x, x + {_text_literal(s)})",
            lambda s, d: f"{_list(s, d)}.filter(x, x != {_text(s, d)})",
            lambda s, d: f"({_list(s, d)} + {_list(s, d)})",
        ),
    )


def _whole(source: random.Random, depth: int) -> str:
    return _one_of(
        source,
        depth,
        (lambda s, d: s.choice(_WHOLE), _attribute),
        (
            lambda s, d: f"({_whole(s, d)} {s.choice('+-*/%')} {_whole(s, d)})",
            lambda s, d: f"-({_whole(s, d)})",
            lambda s, d: f"size({_text(s, d)})",
            lambda s, d: f"{_list(s, d)}.size()",
            lambda s, d: f"int({_text(s, d)})",
            lambda s, d: f"{_text(s, d)}.{s.choice(('indexOf', 'lastIndexOf'))}({_text_literal(s)})",
            lambda s, d: f"{_version(s, d)}.{s.choice(('major', 'minor', 'patch'))}()",
            lambda s, d: f"{_quantity(s, d)}.{s.choice(('sign', 'asInteger'))}()",
            lambda s, d: f"({_truth(s, d)} ? {_whole(s, d)} : {_whole(s, d)})",
        ),
    )


def _quantity(source: random.Random, depth: int) -> str:
    return _one_of(
        source,
        depth,
        (_amount, lambda s, d: f'quantity("{s.choice(_QUANTITIES)}")'),
        (
            lambda s, d: f"{_quantity(s, d)}.add({s.choice((_quantity, _whole))(s, d)})",
            lambda s, d: f"{_quantity(s, d)}.sub({s.choice((_quantity, _whole))(s, d)})",
        ),
    )


def _version(source: random.Random, depth: int) -> str:
    return _one_of(
        source,
        depth,
        (_attribute, lambda s, d: f'semver("{s.choice(_VERSIONS)}")'),
        (lambda s, d: f'semver("{s.choice(("v1.2", "01.2.3", "x", "1"))}", true)',),
    )


def _any(source: random.Random, depth: int) -> str:
    return source.choice((_text, _whole, _quantity, _version, _truth, _list))(source, depth)


def _truth(source: random.Random, depth: int) -> str:
    def compared(kind: Writer, *signs: str) -> Writer:
        return lambda s, d: f"{kind(s, d)} {s.choice(signs)} {kind(s, d)}"

    def quantified(s: random.Random, d: int) -> str:
        macro = s.choice(("all", "exists", "exists_one"))
        over = s.choice((_list(s, d), f'device.attributes["{_domain(s)}"]', "device.attributes"))
        first = f"{s.choice(('x', 'device.driver'))} == {_text(s, d)}"
        return f"{over}.{macro}(x, {first} {s.choice(('||', '&&'))} {_truth(s, d)})"

    return _one_of(
        source,
        depth,
        (
            lambda s, d: s.choice(("true", "false", "device.allowMultipleAllocations")),
            _attribute,
            lambda s, d: f'"{s.choice(_NAMES)}" in device.attributes["{_domain(s)}"]',
            lambda s, d: f'"{_domain(s)}" in device.attributes',
            lambda s, d: f'has(device.attributes["{_domain(s)}"].{s.choice(_NAMES)})',
            lambda s, d: f'device.attributes["{_domain(s)}"].?{s.choice(_NAMES)}.hasValue()',
            lambda s, d: f"device.driver == {_text_literal(s)}",
        ),
        (
            lambda s, d: f"({_truth(s, d)} && {_truth(s, d)})",
            lambda s, d: f"({_truth(s, d)} || {_truth(s, d)})",
            lambda s, d: f"!({_truth(s, d)})",
            lambda s, d: f"({_truth(s, d)} ? {_truth(s, d)} : {_truth(s, d)})",
            compared(_text, "==", "!=", "<", ">="),
            compared(_whole, "==", "!=", "<", "<=", ">", ">="),
            compared(_quantity, "==", "!="),
            compared(_version, "==", "!="),
            compared(_any, "==", "!="),
            lambda s, d: f"{_quantity(s, d)}.compareTo({_quantity(s, d)}) {s.choice(('==', '<', '>='))} 0",
            lambda s, d: f"{_version(s, d)}.{s.choice(('isLessThan', 'isGreaterThan'))}({_version(s, d)})",
            lambda s, d: f"{_quantity(s, d)}.{s.choice(('isLessThan', 'isGreaterThan'))}({_quantity(s, d)})",
            lambda s, d: f"{_text(s, d)}.{s.choice(('startsWith', 'endsWith', 'contains'))}({_text(s, d)})",
            lambda s, d: f"{_text(s, d)}.matches({_pattern(s)})",
            lambda s, d: f"{_text(s, d)} in {_list(s, d)}",
            lambda s, d: f"cel.bind(b, {_any(s, d)}, {_truth(s, d)} || b == {_any(s, d)})",
            lambda s, d: f"isQuantity({_text(s, d)})",
            lambda s, d: f"isSemver({_text(s, d)})",
            quantified,
        ),
    )
