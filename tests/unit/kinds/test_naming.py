"""What labels and objects may be called, by the API server's rules."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.naming import (
    LABEL_VALUE,
    QUALIFIED_NAME,
    label_key_problem,
    label_value_problem,
    namespace_problem,
    subdomain_problem,
)

VALUES = ["", "a", "A-1_b.c", "a" * 63]
NO_VALUES = ["a b", "-a", "a-", ".a", "_", "é", "a" * 64, "a/b", "a\n"]
KEYS = ["a", "example.com/a", "A_b", "a.b-c/" + "n" * 63]
NO_KEYS = ["", "/", "/a", "a/", "a/b/c", "Example.com/a", "a..b/c", "-a/b", "a b", "a" * 64, f"{'d' * 254}/a"]


@pytest.mark.parametrize("text", VALUES)
def test_what_a_label_may_say(text: str) -> None:
    assert label_value_problem(text) == ""
    assert re.search(LABEL_VALUE, text)


@pytest.mark.parametrize("text", NO_VALUES)
def test_what_a_label_may_not_say(text: str) -> None:
    assert label_value_problem(text)


@pytest.mark.parametrize("text", KEYS)
def test_what_a_label_may_be_called(text: str) -> None:
    assert label_key_problem(text) == ""
    assert re.search(QUALIFIED_NAME, text)


@pytest.mark.parametrize("text", NO_KEYS)
def test_what_a_label_may_not_be_called(text: str) -> None:
    assert label_key_problem(text)


@pytest.mark.parametrize(("text", "is_right"), [("a.b", True), ("a", True), ("a_b", False), ("A", False)])
def test_what_an_object_may_be_called(text: str, is_right: bool) -> None:
    assert (subdomain_problem(text) == "") == is_right
    assert (namespace_problem(text) == "") == (is_right and "." not in text)


_NEAR = st.text(alphabet="aZ0-_./ é\n", max_size=70) | st.text(max_size=70)


@given(_NEAR)
def test_the_patterns_of_schemas_say_the_same(text: str) -> None:
    """But for lengths, which schemas have beside them, and a last line break, which `$` lets by in Python."""
    value, key = (re.search(pattern[:-1] + r"\Z", text) for pattern in (LABEL_VALUE, QUALIFIED_NAME))

    assert bool(value and len(text) <= 63) == (label_value_problem(text) == "")
    assert bool(key and len(text.rpartition("/")[0]) <= 253) == (label_key_problem(text) == "")


@given(_NEAR)
def test_every_problem_is_one_line_of_bounded_length(text: str) -> None:
    for problem in (label_value_problem, label_key_problem, subdomain_problem, namespace_problem):
        said = problem(text * 20)
        assert "\n" not in said
        assert len(said) < 400
