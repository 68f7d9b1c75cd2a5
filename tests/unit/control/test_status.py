"""The patch of a status makes the old one into the new one, as an API server applies it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.control.errors import UnkeptStatusError
from accelet.control.status import check_kept, status_patch
from accelet.fakeapi.patches import merge_patch

LEAVES = st.one_of(st.integers(0, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 2), max_size=2))
STATUSES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_size=3,
)


@given(STATUSES, STATUSES)
def test_patch_makes_the_old_status_the_new_one(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = status_patch(before, after, "7")
    if patch is None:
        assert before == after
        return
    patched = merge_patch({"metadata": {"name": "x"}, "status": before}, json.loads(json.dumps(patch)))
    assert patched["status"] == after
    assert patched["metadata"]["resourceVersion"] == "7"


@given(STATUSES, STATUSES)
def test_a_status_of_which_anything_is_missing_is_told_with_its_fields(
    written: dict[str, Any], kept: dict[str, Any]
) -> None:
    check_kept(written, dict(written))
    if written != kept:
        with pytest.raises(UnkeptStatusError, match=r"keeps no .* of the status"):
            check_kept(written, kept)
