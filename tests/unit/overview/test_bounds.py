"""Texts of others have an end, and nothing in them that nobody sees."""

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.overview.bounds import cut, first


@given(st.text(st.characters(codec=None)), st.integers(1, 40))
def test_text_is_bounded_and_can_be_sent(text: str, most: int) -> None:
    shown = cut(text, most)
    assert len(shown) <= most + 1
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown
    assert {unicodedata.category(sign) for sign in shown}.isdisjoint({"Cc", "Cf", "Cs"})


@pytest.mark.parametrize("text", ["plain/name-0", "Müller", "<b>bold</b>", "日本語"])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert cut(text) == text


def test_direction_of_text_cannot_be_turned() -> None:
    assert cut("ml/\u202egnp.exe\n\x00") == "ml/\ufffdgnp.exe\ufffd\ufffd"


@given(st.lists(st.integers()), st.integers(0, 10))
def test_first_of_many_and_how_many_more(items: list[int], most: int) -> None:
    shown, more = first(items, most)
    assert list(shown) == items[:most]
    assert len(shown) + more == len(items)
