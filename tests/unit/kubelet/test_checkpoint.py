import base64
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kubelet.api.deviceplugin_pb2 import ContainerAllocateResponse
from accelet.kubelet.checkpoint import (
    CHECKPOINT_FILE,
    Checkpoint,
    parse_checkpoint,
    read_checkpoint,
)
from accelet.kubelet.errors import CheckpointError


def entry(
    ids: object, response: bytes | None = None, resource: str = "gpu.intel.com/i915"
) -> dict[str, object]:
    return {
        "PodUID": "u-1",
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": None if response is None else base64.b64encode(response).decode(),
    }


def content(
    entries: list[dict[str, object]] | None, registered: dict[str, list[str]] | None = None, **more: object
) -> bytes:
    data = {"PodDeviceEntries": entries, "RegisteredDevices": registered}
    return json.dumps({"Data": data, "Checksum": 2717914303, **more}).encode()


def test_ids_of_every_numa_node_are_one_set() -> None:
    parsed = parse_checkpoint(content([entry({"-1": ["c"], "0": ["a", "b"], "1": ["b"]})]))
    assert parsed.entries[0].device_ids == {"a", "b", "c"}


def test_ids_in_the_form_up_to_1_19_are_a_plain_list() -> None:
    parsed = parse_checkpoint(content([entry(["a", "b"])]))
    assert parsed.entries[0].device_ids == {"a", "b"}


def test_stored_response_gives_annotations_and_environment() -> None:
    response = ContainerAllocateResponse(annotations={"accelet.dev/token": "t"}, envs={"A": "1"})
    held = parse_checkpoint(content([entry({"-1": ["a"]}, response.SerializeToString())])).entries[0]
    assert (dict(held.annotations), dict(held.environment)) == ({"accelet.dev/token": "t"}, {"A": "1"})


def test_response_that_cannot_be_decoded_keeps_its_ids_and_the_other_entries() -> None:
    broken = entry({"-1": ["x"]}, b"\xff\xff\xff", resource="example.com/other")
    parsed = parse_checkpoint(content([broken, entry({"-1": ["a"]}, b"")]))
    assert [held.device_ids for held in parsed.entries] == [{"x"}, {"a"}]


def test_registered_devices_are_read() -> None:
    parsed = parse_checkpoint(content(None, {"gpu.intel.com/i915": ["a", "b"], "example.com/none": []}))
    assert parsed.entries == ()
    assert dict(parsed.registered) == {"gpu.intel.com/i915": {"a", "b"}, "example.com/none": frozenset()}


def test_fields_of_newer_kubelets_are_ignored() -> None:
    assert parse_checkpoint(content(None, {}, BootID="6c2f")) == Checkpoint()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"", "truncated"),
        (b'{"Data": {"PodDeviceEntries": [', "truncated"),
        (b"[]", "object"),
        (b'{"Checksum": 1}', "Data"),
        (b'{"Data": {"PodDeviceEntries": []}}', "RegisteredDevices"),
        (content([entry({"-1": "a"})]), "$.Data.PodDeviceEntries[0].DeviceIDs"),
        (content([entry({"-1": [1]})]), "$.Data.PodDeviceEntries[0].DeviceIDs"),
        (
            content([entry({"-1": ["a"]}), entry({}) | {"AllocResp": "%"}]),
            "$.Data.PodDeviceEntries[1].AllocResp",
        ),
        (content([entry({}) | {"PodUID": None}]), "$.Data.PodDeviceEntries[0].PodUID"),
    ],
)
def test_what_is_no_checkpoint_is_refused_with_its_place(text: bytes, place: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_checkpoint(text)
    assert place in str(caught.value)
    assert CHECKPOINT_FILE in str(caught.value)


def test_directory_without_the_file_is_a_kubelet_that_gave_nothing_yet(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) == Checkpoint()


def test_missing_directory_is_not_taken_for_an_empty_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="mounted"):
        read_checkpoint(tmp_path / "absent")


def test_file_is_read_from_the_directory(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT_FILE).write_bytes(content([entry({"0": ["a"]})]))
    assert read_checkpoint(tmp_path).entries[0].pod_uid == "u-1"


def test_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT_FILE).mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(tmp_path)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_arbitrary_content_raises_nothing_but_the_one_error(text: bytes) -> None:
    with contextlib.suppress(CheckpointError):
        parse_checkpoint(text)


@given(entries=st.lists(st.fixed_dictionaries({"DeviceIDs": JSON, "AllocResp": JSON, "PodUID": JSON})))
def test_arbitrary_fields_raise_nothing_but_the_one_error(entries: list[dict[str, object]]) -> None:
    with contextlib.suppress(CheckpointError):
        parse_checkpoint(content([entry({}) | one for one in entries]))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(CheckpointError):
        parse_checkpoint(b"[" * sys.getrecursionlimit() * 20)
