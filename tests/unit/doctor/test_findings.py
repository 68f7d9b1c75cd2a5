"""Verdicts: bounded, graded, and what others wrote is one short printable line."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.doctor.findings import LONGEST_QUOTE, MOST_FINDINGS, Finding, Verdict, exit_code, judge, quoted

LEVELS = st.sampled_from(["wrong", "unseen", "note"])
FINDINGS = st.lists(st.builds(Finding, LEVELS, st.just("node-1"), st.just("it is so")), max_size=100)


@given(st.text(max_size=5000))
def test_a_quote_is_one_short_printable_line(text: str) -> None:
    said = quoted(text)
    assert said.isascii()
    assert said.isprintable() or not said
    assert len(said) <= LONGEST_QUOTE + len("...")


@given(FINDINGS)
def test_findings_are_bounded_and_no_level_is_lost(findings: list[Finding]) -> None:
    verdict = judge("check", "fine", findings)
    assert len(verdict.findings) <= 3 * (MOST_FINDINGS + 1)
    assert {one.level for one in verdict.findings} == {one.level for one in findings}
    assert verdict.level == Verdict("check", "", tuple(findings)).level


@given(FINDINGS)
def test_the_exit_code_is_that_of_the_gravest_finding(findings: list[Finding]) -> None:
    levels = {one.level for one in findings}
    expected = 1 if "wrong" in levels else 2 if "unseen" in levels else 0
    assert exit_code([judge("check", "fine", findings)]) == expected


def test_what_is_left_out_is_counted() -> None:
    verdict = judge("check", "", [Finding("wrong", f"pod-{i}", "waits") for i in range(MOST_FINDINGS + 5)])
    assert verdict.findings[-1].about == "5 more"
