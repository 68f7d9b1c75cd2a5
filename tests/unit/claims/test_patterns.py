"""Regular expressions match as RE2's do; Python's are the same for what is drawn here."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.claims.cel.failures import EvaluationError, UnknownError
from accelet.claims.cel.patterns import compile_pattern

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "^", "$", "\\b", "x{2}", "1"])


def _patterns() -> st.SearchStrategy[str]:
    return st.recursive(
        _ATOMS,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
            st.tuples(inner, st.sampled_from(["*?", "+", "?", "{1,2}", "??"])).map(
                lambda one: f"(?:{one[0]}){one[1]}"
            ),
        ),
        max_leaves=8,
    )


def _is_loop_of_nothing(pattern: str) -> bool:
    """Where a part that may be empty is repeated, engines differ in what they prefer."""
    return any(re.fullmatch(part, "") for part in re.findall(r"\(\?:[^()]*\)(?=[*+{?])", pattern))


@given(_patterns(), st.text("abx1 ", max_size=8))
def test_texts_match_as_with_python(pattern: str, text: str) -> None:
    ours = compile_pattern(pattern).find(text)
    theirs = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    assert (ours is None) == (theirs is None)
    if theirs is not None and not _is_loop_of_nothing(pattern):
        assert ours is not None
        assert ours[0] == theirs.start()


@pytest.mark.parametrize("pattern", ["(", "a)", "[a", "*", "a**", "(?<n", "[[:nope:]]", "x{2,1}", "a\\"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(EvaluationError):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"\pL", r"\Qa\E", "(?U)a", "(?i)é", "a{1000}{1}"[:7] + "{1000}"])
def test_what_is_not_served_is_said(pattern: str) -> None:
    with pytest.raises((UnknownError, EvaluationError)):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a|ab", "xab", (1, 2)),
        ("(?i)gPu", "xGPU", (1, 4)),
        ("[[:digit:]]+", "ab12", (2, 4)),
        ("(?s).", "\n", (0, 1)),
        (".", "\n", None),
        ("(?m)^b$", "a\nb\n", (2, 3)),
        ("^b$", "a\nb", None),
        ("a$", "a\n", None),
        (r"\x41\x{42}", "AB", (0, 2)),
        ("[a-]+", "-a-", (0, 3)),
        ("x{2,}", "xxx", (0, 3)),
        ("x{,2}", "x{,2}", (0, 5)),
        ("(?P<n>a)(?<m>b)", "ab", (0, 2)),
    ],
)
def test_rules_of_re2(pattern: str, text: str, found: tuple[int, int] | None) -> None:
    assert compile_pattern(pattern).find(text) == found


def test_all_matches_do_not_overlap() -> None:
    assert [*compile_pattern("a*").find_all("baac", -1)] == [(0, 0), (1, 3), (4, 4)]
    assert [*compile_pattern("a").find_all("aaa", 2)] == [(0, 1), (1, 2)]
