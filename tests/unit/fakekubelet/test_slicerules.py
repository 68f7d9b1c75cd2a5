"""The rules for ResourceSlices: each fault is found, as what it is, and nothing else.

`tests/e2e/test_slice_rules.py` has a real API server judge the same examples.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.conformance.dra.sliceforms import SliceError, newest, parse_spec
from accelet.fakekubelet.conformance.dra.slicerules import Rule, pool_faults
from tests.unit.fakekubelet.slicecorpus import EXAMPLES, Example, spec


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_breaks_the_rule_it_is_there_for_and_no_other(example: Example) -> None:
    faults = pool_faults([parse_spec(one) for one in example.specs])
    assert {fault.rule for fault in faults} == ({example.breaks} if example.breaks else set()), faults


def test_every_rule_has_an_example() -> None:
    assert {example.breaks for example in EXAMPLES} == {None, *Rule}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["driver", "pool", "nodeName", "allNodes", "devices", "sharedCounters"])


@given(st.dictionaries(fields, json_values, max_size=4), st.booleans())
def test_whatever_a_driver_writes_is_judged_or_is_no_slice(odd: dict[str, Any], is_whole: bool) -> None:
    try:
        parsed = parse_spec(spec() | odd if is_whole else odd)
    except SliceError:
        return
    pool_faults([parsed])


@given(json_values)
def test_whatever_a_device_says_is_judged_or_is_no_slice(odd: Any) -> None:
    for field in ("attributes", "capacity", "consumesCounters", "taints"):
        try:
            parsed = parse_spec(spec(devices=[{"name": "dev-0", field: odd}]))
        except SliceError:
            continue
        pool_faults([parsed])


@pytest.mark.parametrize("raw", [None, [], "x", {"devices": 1}, {"pool": {"generation": "1"}}])
def test_what_has_another_shape_is_no_slice(raw: object) -> None:
    with pytest.raises(SliceError, match="a slice is no ResourceSlice"):
        parse_spec(raw)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=8))
def test_of_each_pool_the_newest_generation_counts(slices: list[tuple[str, int]]) -> None:
    specs = [
        parse_spec(spec(pool={"name": name, "generation": generation, "resourceSliceCount": 1}))
        for name, generation in slices
    ]
    for name, found in newest(specs).items():
        most = max(generation for pool, generation in slices if pool == name)
        assert [each.pool.generation for each in found] == [most] * slices.count((name, most))
    assert set(newest(specs)) == {name for name, _ in slices}
