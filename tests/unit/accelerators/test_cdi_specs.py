import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.cdi.specs import MOST_BYTES, CdiReader

KIND = "nvidia.com/gpu"


def put(root: Path, path: str, content: str | bytes) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def spec(*devices: tuple[str, str], kind: str = KIND) -> str:
    return json.dumps(
        {
            "cdiVersion": "0.5.0",
            "kind": kind,
            "devices": [
                {"name": name, "containerEdits": {"deviceNodes": [{"path": node}]}} for name, node in devices
            ],
        }
    )


def found(root: Path) -> dict[str, list[str]]:
    return {name: sorted(device.nodes) for name, device in CdiReader(KIND).find(root).by_name.items()}


def problem(root: Path) -> str:
    (said,) = CdiReader(KIND).find(root).problems
    return said


def test_devices_of_the_kind_are_read_from_json_and_yaml(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", spec(("0", "/dev/nvidia0")))
    put(tmp_path, "var/run/cdi/b.yaml", yaml.safe_dump(json.loads(spec(("1", "/dev/nvidia1")))))
    put(tmp_path, "etc/cdi/other.json", spec(("0", "/dev/other"), kind="other.com/gpu"))
    put(tmp_path, "etc/cdi/notes.txt", spec(("2", "/dev/nvidia2")))
    assert found(tmp_path) == {"0": ["/dev/nvidia0"], "1": ["/dev/nvidia1"]}
    assert CdiReader(KIND).find(tmp_path).files == 2


def test_var_run_replaces_what_etc_says_of_a_name(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", spec(("0", "/dev/nvidia0"), ("1", "/dev/nvidia1")))
    put(tmp_path, "var/run/cdi/a.json", spec(("0", "/dev/nvidia7")))
    assert found(tmp_path) == {"0": ["/dev/nvidia7"], "1": ["/dev/nvidia1"]}


def test_a_name_that_is_twice_in_one_folder_is_nobodys(tmp_path: Path) -> None:
    put(tmp_path, "etc/cdi/a.json", spec(("0", "/dev/nvidia0"), ("1", "/dev/nvidia1")))
    put(tmp_path, "etc/cdi/b.json", spec(("0", "/dev/nvidia0")))
    assert found(tmp_path) == {"1": ["/dev/nvidia1"]}
    assert problem(tmp_path) == (
        "the CDI device 0 is there twice, in /etc/cdi/a.json and /etc/cdi/b.json: nobody can be given it"
    )


def test_a_changed_file_is_read_again_and_another_is_not(tmp_path: Path) -> None:
    reader, file = CdiReader(KIND), put(tmp_path, "etc/cdi/a.json", spec(("0", "/dev/nvidia0")))
    before = reader.find(tmp_path)
    assert reader.find(tmp_path).by_name["0"] is before.by_name["0"]
    new = put(tmp_path, "etc/cdi/new", spec(("5", "/dev/nvidia5")))
    new.replace(file)
    assert list(reader.find(tmp_path).by_name) == ["5"]
    file.unlink()
    assert list(reader.find(tmp_path).by_name) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "Input data was truncated"),
        ("{", "Input data was truncated"),
        ('{"kind": 3}', "Expected `str`"),
        (spec(("-x", "/dev/nvidia0")), "'-x' is no name of a device"),
        (spec(("x" * 300, "/dev/nvidia0")), "is no name of a device"),
        (b"\xff\xfe\x00", "malformed"),
        ('{"kind": "nvidia.com/gpu", "x": ' + "[" * 100_000, "recursion"),
        (" " * (MOST_BYTES + 1), "larger than"),
    ],
)
def test_a_json_file_that_is_no_specification_is_named(
    tmp_path: Path, content: str | bytes, says: str
) -> None:
    put(tmp_path, "etc/cdi/a.json", content)
    put(tmp_path, "etc/cdi/good.json", spec(("0", "/dev/nvidia0")))
    assert problem(tmp_path).startswith("/etc/cdi/a.json is no CDI specification that can be read: ")
    assert says in problem(tmp_path)
    assert found(tmp_path) == {"0": ["/dev/nvidia0"]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "Expected `object`, got `null`"),
        ("kind: [", "not YAML"),
        ("a: &a [x, x]\nkind: *a\n", "aliases"),
        ("a: &a [x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nkind: nvidia.com/gpu\n", "aliases"),
        ("kind: !!python/object:os.system {}\n", "not YAML"),
        ("[" * 50_000, "nested more than 100 deep"),
        ("a: " + "[" * 50_000 + "]" * 50_000, "nested more than 100 deep"),
    ],
)
def test_a_yaml_file_that_is_no_specification_is_named(tmp_path: Path, content: str, says: str) -> None:
    put(tmp_path, "etc/cdi/a.yaml", content)
    assert says in problem(tmp_path)
    assert found(tmp_path) == {}


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi/folder.json").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/cdi/pipe.json")
    (tmp_path / "etc/cdi/loop.json").symlink_to("loop.json")
    assert found(tmp_path) == {}
    assert len(CdiReader(KIND).find(tmp_path).problems) == 3


@given(
    devices=st.dictionaries(
        st.from_regex(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,20}[A-Za-z0-9])?", fullmatch=True),
        st.lists(st.sampled_from(("/dev/nvidia0", "/dev/nvidia1", "/dev/dri/card0")), max_size=3),
        max_size=5,
    ),
    as_yaml=st.booleans(),
)
def test_every_written_device_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, devices: dict[str, list[str]], as_yaml: bool
) -> None:
    root = tmp_path_factory.mktemp("host")
    listed = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": node} for node in nodes]}}
        for name, nodes in devices.items()
    ]
    document = {"cdiVersion": "0.6.0", "kind": KIND, "devices": listed, "containerEdits": {"env": ["A=b"]}}
    put(
        root,
        f"etc/cdi/a.{'yaml' if as_yaml else 'json'}",
        yaml.safe_dump(document) if as_yaml else json.dumps(document),
    )
    assert found(root) == {name: sorted(set(nodes)) for name, nodes in devices.items()}
