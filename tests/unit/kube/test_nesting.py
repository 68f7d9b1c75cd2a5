"""Objects nested as deeply as an API server takes them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import read_page
from accelet.kube.podparser import parse_pod
from accelet.kube.watching.store import read_identity
from accelet.runtime.foreign.nesting import MOST_DEPTH, make_shallow
from tests.fakes.manifests import raw_pod

DEEPEST = 9_990
"""What a real API server 1.36 takes in all is 10,000."""

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=30,
)


def deep(depth: int, opening: str = '{"f:a":', closing: str = "}") -> str:
    return opening * depth + "{}" + closing * depth


def deep_pod(name: str = "deep", depth: int = DEEPEST, **forms: str) -> bytes:
    raw = raw_pod(name, nodeName="n0")
    raw["metadata"]["managedFields"] = "HERE"
    return json.dumps(raw).replace('"HERE"', f'[{{"fieldsV1": {deep(depth, **forms)}}}]').encode()


@pytest.mark.parametrize("depth", [1_200, DEEPEST, 100_000])
@pytest.mark.parametrize("forms", [{}, {"opening": "[", "closing": "]"}])
def test_a_pod_is_read_however_deep_what_nobody_reads_is(depth: int, forms: dict[str, str]) -> None:
    shallow = parse_pod(raw_pod("deep", nodeName="n0"))
    assert parse_pod(deep_pod(depth=depth, **forms)) == shallow
    assert read_identity(msgspec.Raw(deep_pod(depth=depth, **forms)), "Pod").key == ("ml", "deep")


def test_one_deep_object_loses_no_other_of_its_page() -> None:
    items = b", ".join([json.dumps(raw_pod("a")).encode(), deep_pod(), json.dumps(raw_pod("b")).encode()])
    page = read_page(b'{"items": [' + items + b'], "metadata": {"resourceVersion": "7"}}', "Pod")
    assert [parse_pod(item).name for item in page.items] == ["a", "deep", "b"]


def test_depth_in_what_is_read_is_malformed() -> None:
    text = json.dumps(raw_pod(nodeSelector={"a": "HERE"})).replace('"HERE"', deep(DEEPEST))
    with pytest.raises(MalformedObjectError, match=r"Pod ml/worker-0: spec\.nodeSelector"):
        parse_pod(text.encode())


@given(JSON)
def test_what_is_shallow_stays_as_it_is(value: object) -> None:
    text = json.dumps(value).encode()
    assert make_shallow(text) == text


@given(JSON, st.integers(0, 300), st.booleans(), st.text())
def test_what_is_deeper_than_the_most_is_null(
    value: object,
    depth: int,
    in_list: bool,
    text: str,
) -> None:
    made: object = [value, text]
    for _ in range(depth):
        made = [text, made] if in_list else {text: made, "\\": "}"}
    found = json.loads(make_shallow(json.dumps(made).encode()))
    assert found == cut(made, MOST_DEPTH)


def cut(value: Any, depth: int) -> Any:
    if isinstance(value, dict | list) and depth == 0:
        return None
    if isinstance(value, dict):
        return {key: cut(one, depth - 1) for key, one in value.items()}
    return [cut(one, depth - 1) for one in value] if isinstance(value, list) else value
