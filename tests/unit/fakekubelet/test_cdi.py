"""CDI files as the fake kubelet's container runtime reads them."""

import json
from pathlib import Path

import pytest

from accelet.fakekubelet.claims.cdi import CdiDevices, UnresolvableError


def write(path: Path, *devices: tuple[str, str], **more: object) -> None:
    """A file of kind `x.com/gpu` with these devices, each with a variable of its value."""
    path.parent.mkdir(exist_ok=True)
    listed = [{"name": name, "containerEdits": {"env": [f"V={value}"]}} for name, value in devices]
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "x.com/gpu", "devices": listed, **more}))


def value(folders: list[Path], *names: str) -> str:
    return CdiDevices(folders).inject([f"x.com/gpu={name}" for name in names]).envs["V"]


def test_a_later_folder_counts_and_the_last_device_of_a_container(tmp_path: Path) -> None:
    write(tmp_path / "etc" / "a.json", ("a", "etc"), ("b", "b"))
    write(tmp_path / "run" / "a.json", ("a", "run"))
    folders = [tmp_path / "etc", tmp_path / "run", tmp_path / "absent"]
    assert value(folders, "a") == "run"
    assert value(folders, "a", "b") == "b"
    assert value(folders, "b", "a", "b") == "run"


def test_a_device_of_two_files_is_of_none(tmp_path: Path) -> None:
    write(tmp_path / "a.json", ("a", "1"), ("b", "2"))
    write(tmp_path / "b.json", ("a", "3"))
    assert value([tmp_path], "b") == "2"
    with pytest.raises(UnresolvableError, match=r"unresolvable CDI devices x\.com/gpu=a"):
        value([tmp_path], "a")


@pytest.mark.parametrize("more", [{"unknown": 1}, {"devices": [{"name": "a"}]}, {"kind": 3}])
def test_a_file_that_is_no_cdi_is_left_out_whole(tmp_path: Path, more: dict[str, object]) -> None:
    write(tmp_path / "a.json", ("a", "1"), **more)
    devices = CdiDevices([tmp_path])
    assert list(devices.problems) == [tmp_path / "a.json"]
    with pytest.raises(UnresolvableError):
        devices.inject(["x.com/gpu=a"])


def test_yaml_is_read_and_other_files_are_not(tmp_path: Path) -> None:
    write(tmp_path / "a.json", ("a", "1"), containerEdits={"env": ["W=2"], "mounts": []})
    (tmp_path / "b.yaml").write_text(
        "cdiVersion: 0.6.0\nkind: x.com/nic\ndevices: [{name: b, containerEdits: {env: [V=3]}}]\n"
    )
    (tmp_path / ".part").write_text("{")
    devices = CdiDevices([tmp_path])
    assert devices.problems == {}
    assert dict(devices.inject(["x.com/gpu=a", "x.com/nic=b"]).envs) == {"W": "2", "V": "3"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"cdiVersion": "1.2.0"}, "invalid version '1.2.0'"),
        ({"cdiVersion": "0.5.0", "annotations": {"a": "b"}}, "the spec version must be at least v0.6.0"),
        ({"kind": "x/gpu"}, "the vendor 'x' has one character"),
        ({"kind": "gpu"}, "the class '' has to begin with a letter"),
        ({"devices": []}, "invalid spec, no devices"),
        ({"devices": [{"name": "a", "containerEdits": {}}]}, "invalid device 'a', empty device edits"),
        ({"devices": [{"name": "a b", "containerEdits": {"env": ["A=1"]}}]}, "invalid device name 'a b'"),
        ({"devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}] * 2}, "multiple device 'a'"),
        ({"containerEdits": {"env": ["A"]}}, "invalid environment variable 'A'"),
        ({"containerEdits": {"deviceNodes": [{"path": ""}]}}, "invalid (empty) device path"),
        (
            {"containerEdits": {"deviceNodes": [{"path": "/a", "permissions": "rwx"}]}},
            "invalid permissions 'rwx'",
        ),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "type": "d"}]}}, "invalid type 'd'"),
        ({"containerEdits": {"mounts": [{"hostPath": "", "containerPath": "/a"}]}}, "empty host path"),
        ({"containerEdits": {"hooks": [{"hookName": "start", "path": "/a"}]}}, "invalid hook name 'start'"),
        ({"cdiVersion": "0.7.0", "containerEdits": {"intelRdt": {"closID": ".."}}}, "invalid ClosID"),
        (
            {
                "cdiVersion": "1.1.0",
                "containerEdits": {"netDevices": [{"hostInterfaceName": "a", "name": ""}]},
            },
            "empty Name",
        ),
    ],
)
def test_a_file_with_one_fault_is_left_out_whole(tmp_path: Path, more: dict[str, object], why: str) -> None:
    write(tmp_path / "a.json", ("a", "1"), ("b", "2"), **more)
    devices = CdiDevices([tmp_path])
    assert why in devices.problems[tmp_path / "a.json"]
    with pytest.raises(UnresolvableError):
        devices.inject(["x.com/gpu=b"])


def test_a_fault_of_one_file_is_no_fault_of_another(tmp_path: Path) -> None:
    write(tmp_path / "a.json", ("a", "1"))
    write(tmp_path / "b.json", ("b", "2"), devices=[])
    assert value([tmp_path], "a") == "1"
