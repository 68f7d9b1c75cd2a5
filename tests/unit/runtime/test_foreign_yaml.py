import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelet.runtime.foreign.yamltext import DEEPEST, ForeignYamlError, load_yaml

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(value=_VALUES, flow=st.booleans())
def test_what_is_written_is_read(value: object, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    assert load_yaml(text) == yaml.safe_load(text)
    assert load_yaml(text.encode()) == yaml.safe_load(text)


@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    refused = ""
    try:
        load_yaml(content)
    except ForeignYamlError as error:
        refused = str(error)
    assert len(refused) < 300


@pytest.mark.parametrize("brackets", ["[", "{a: ", "- "])
def test_depth_ends_no_process(brackets: str) -> None:
    with pytest.raises(ForeignYamlError, match=f"nested more than {DEEPEST} deep") as caught:
        load_yaml("\n" + brackets * 100_000)
    assert caught.value.line == 2
    load_yaml("[" * DEEPEST + "]" * DEEPEST)


def test_aliases_are_for_those_who_ask_for_them() -> None:
    text = "a: &x [1]\nb: *x\n"
    with pytest.raises(ForeignYamlError, match="aliases"):
        load_yaml(text)
    assert load_yaml(text, takes_aliases=True) == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    "text", ["a: [", "a: !!python/object:os.system {}", "a: 2026-99-99", "--- 1\n--- 2\n", "a: \x00"]
)
def test_other_texts_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ForeignYamlError, match=r"^not YAML: "):
        load_yaml(text)
