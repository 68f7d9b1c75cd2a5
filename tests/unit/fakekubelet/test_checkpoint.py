"""The checkpoint's text and checksum are the real kubelet's."""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.devices.checksum import checksum
from accelet.fakekubelet.devices.holdings import (
    CorruptCheckpointError,
    Entry,
    Held,
    Holdings,
    read_checkpoint,
    write_checkpoint,
)
from accelet.fakekubelet.pods import PodUid


def encoded(*values: int) -> str:
    return base64.b64encode(bytes(values)).decode()


ODD = {
    "PodDeviceEntries": [
        {
            "PodUID": "uid-1",
            "ContainerName": "main",
            "ResourceName": "gpu.intel.com/i915",
            "DeviceIDs": {"-1": ["a", "b"], "0": ["c"], "10": ["x"], "2": ["y"]},
            "AllocResp": encoded(10, 0, 255),
        },
        {
            "PodUID": 'uid "é\n%',
            "ContainerName": "m",
            "ResourceName": "r/x",
            "DeviceIDs": {},
            "AllocResp": None,
        },
    ],
    "RegisteredDevices": {"r/b": ["1"], "r/a": None, "r/c": []},
}


# Made with the kubelet's own types and go-spew, as Kubernetes 1.36 hashes them.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ODD, 2922635769),
        ({"PodDeviceEntries": None, "RegisteredDevices": {}}, 3467439661),
        ({"PodDeviceEntries": [], "RegisteredDevices": None}, 3252601439),
    ],
)
def test_checksums_are_those_of_go(data: object, expected: int) -> None:
    assert checksum(data) == expected


def by_place(holdings: Holdings) -> dict[tuple[str, str, str], Held]:
    return {(each.pod, each.container, each.resource): each.held for each in holdings}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
entries = st.builds(
    Entry,
    pod=texts.map(PodUid),
    container=texts,
    resource=texts,
    held=st.builds(
        Held,
        by_numa_node=st.dictionaries(
            st.integers(-1, 12), st.lists(texts, min_size=1, max_size=3).map(tuple), max_size=3
        ),
        response=st.binary(max_size=8),
    ),
)


@given(st.lists(entries, max_size=4), st.dictionaries(texts, st.lists(texts, max_size=3), max_size=3))
def test_what_is_written_is_read_again(written: list[Entry], registered: dict[str, list[str]]) -> None:
    holdings, resources = read_checkpoint(write_checkpoint(Holdings(written), registered))
    assert by_place(holdings) == by_place(Holdings(written))
    assert sorted(resources) == sorted(registered)


@given(st.data())
def test_a_changed_id_is_noticed(data: st.DataObject) -> None:
    text = write_checkpoint(
        Holdings([Entry(PodUid("u"), "c", "r/x", Held({0: ("some-device",)}, b"answer"))]), {"r/x": []}
    )
    place = text.index("some-device") + data.draw(st.integers(0, 10))
    damaged = text[:place] + "X" + text[place + 1 :]
    with pytest.raises(CorruptCheckpointError, match="checksum"):
        read_checkpoint(damaged)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["Data", "Checksum", "PodDeviceEntries", "RegisteredDevices", "DeviceIDs"]),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_whatsoever_breaks_the_reader(document: object) -> None:
    with contextlib.suppress(CorruptCheckpointError):
        read_checkpoint(json.dumps(document))
