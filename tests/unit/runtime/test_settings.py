"""Strict settings: every mistake at once, each with its line."""

from typing import Annotated, Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accelet.runtime.settings import Contradiction, Reader


class Leaf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    shares: Annotated[int, msgspec.Meta(ge=1)] = 1
    policy: Literal["none", "packed"] = "none"
    ids: tuple[str, ...] = ()
    places: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] | None = None

    def problems(self) -> list[Contradiction]:
        return (
            [Contradiction(("shares",), "needs a policy")]
            if self.shares > 1 and self.policy == "none"
            else []
        )


class Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal["v1"]
    leaves: tuple[Leaf, ...] = ()
    extra: Leaf | None = None
    limits: Annotated[dict[str, Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=2)] = {}


def read(text: str) -> tuple[Tree | None, list[str]]:
    reader = Reader("f.yaml")
    node = reader.parse(text)
    tree = reader.read(node, Tree) if node is not None else None
    return tree, [str(problem) for problem in reader.problems]


def test_a_right_text_becomes_a_value() -> None:
    tree, problems = read("version: v1\nleaves:\n- {name: a, shares: 2, policy: packed, ids: [0x56c0, b]}\n")
    assert problems == []
    assert tree == Tree("v1", (Leaf("a", 2, "packed", ("0x56c0", "b")),))


def test_every_mistake_is_reported_with_its_line() -> None:
    text = """version: v2
leaves:
- name: a
  shares: 0
  policy: spread
- shars: 3
- name: b
  shares: 2
- 7
extra: {name: [x]}
more: 1
"""
    _, problems = read(text)
    assert problems == [
        "f.yaml:11: more: is not a setting; known are version, leaves, extra, limits",
        "f.yaml:1: version: must be one of v1, not 'v2'",
        "f.yaml:4: leaves[0].shares: must be int >= 1, not '0'",
        "f.yaml:5: leaves[0].policy: must be one of none, packed, not 'spread'",
        "f.yaml:6: leaves[1].shars: is not a setting; did you mean shares?",
        "f.yaml:6: leaves[1]: name is missing",
        "f.yaml:8: leaves[2].shares: needs a policy",
        "f.yaml:9: leaves[3]: must be a mapping, not '7'",
        "f.yaml:10: extra.name: must be str, not a list",
    ]


def test_list_that_must_say_something_is_not_empty() -> None:
    assert read("version: v1\nleaves: [{name: a, places: []}]\n")[1] == [
        "f.yaml:2: leaves[0].places: must not be empty"
    ]
    assert read("version: v1\nleaves: [{name: a, places: [here]}]\n")[1] == []


def test_mistake_in_a_mapping_is_told_at_its_key() -> None:
    text = "version: v1\nlimits:\n  a: 1\n  b: {c: 2}\n  d: -1\n  a: 2\n  [e]: 1\n"
    assert read(text)[1] == [
        "f.yaml:4: limits.b: must be int, not a mapping",
        "f.yaml:5: limits.d: must be int >= 0, not '-1'",
        "f.yaml:6: limits.a: is given twice",
        "f.yaml:7: limits: must be str, not a list",
    ]
    tree, problems = read("version: v1\nlimits: {a: 1, b: 2}\n")
    assert problems == []
    assert tree is not None
    assert tree.limits == {"a": 1, "b": 2}


def test_mapping_that_is_too_long_or_none_is_told_as_a_whole() -> None:
    assert read("version: v1\nlimits: {a: 1, b: 2, c: 3}\n")[1] == [
        "f.yaml:2: limits: must be a mapping of length <= 2, not 3 entries"
    ]
    assert read("version: v1\nlimits: [a]\n")[1] == ["f.yaml:2: limits: must be a mapping, not a list"]


def test_a_repeated_key_is_reported() -> None:
    assert read("version: v1\nversion: v1\n")[1] == ["f.yaml:2: version: is given twice"]


def test_text_that_is_not_yaml_is_reported_with_its_line() -> None:
    (problem,) = read("version: v1\nleaves: [\n")[1]
    assert problem.startswith("f.yaml:3: not YAML: ")


@given(st.text())
def test_any_text_gives_a_value_or_problems(text: str) -> None:
    tree, problems = read(text)
    assert (tree is None) or not problems
