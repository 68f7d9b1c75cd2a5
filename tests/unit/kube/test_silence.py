"""How long the API server has said nothing, and from when that is said."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.watching.silence import LONGEST_SILENCE_S, describe_silence, measure_silence


@dataclass(frozen=True)
class Watched:
    heard_s: float


@pytest.mark.parametrize(
    ("ages_s", "said"),
    [
        ({}, ""),
        ({"pods": 300.0}, ""),
        ({"pods": 301.0, "nodes": 2.0}, "the API server has said nothing of pods for 301 s"),
        ({"pods": 400.0, "nodes": 312.4}, "the API server has said nothing of nodes, pods for 312 s"),
    ],
)
def test_what_nothing_was_heard_of_for_too_long_is_named(ages_s: dict[str, float], said: str) -> None:
    assert describe_silence(ages_s) == said


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1000)), st.floats(1000, 2000))
def test_those_alone_are_named_that_are_silent_for_longer(heard_s: dict[str, float], now_s: float) -> None:
    ages_s = measure_silence({name: Watched(at_s) for name, at_s in heard_s.items()}, now_s)
    said = describe_silence(ages_s)
    silent = sorted(name for name, at_s in heard_s.items() if now_s - at_s > LONGEST_SILENCE_S)
    assert bool(said) == bool(silent)
    assert f" of {', '.join(silent)} for " in said or not silent
