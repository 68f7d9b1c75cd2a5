"""When and for how long the tests stand still in `make test-stalls`."""

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stalls import find_cgroup2, stalls


@given(st.integers(0, 2**64))
def test_stalls_are_short_apart_and_the_same_for_a_seed(seed: int) -> None:
    drawn = list(islice(stalls(seed), 20))
    assert drawn == list(islice(stalls(seed), 20))
    assert all(one.lasts_s <= 2.0 and one.after_s >= 0.5 for one in drawn)


@pytest.mark.parametrize(
    ("mounts", "found"),
    [
        (
            "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
            "/sys/fs/cgroup/unified",
        ),
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "/sys/fs/cgroup"),
        ("cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n", None),
        ("", None),
    ],
)
def test_cgroups_of_version_2_are_found_where_they_are_mounted(mounts: str, found: str | None) -> None:
    assert find_cgroup2(mounts) == (None if found is None else Path(found))
