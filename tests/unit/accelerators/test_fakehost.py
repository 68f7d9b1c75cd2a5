"""`python -m accelet.fakehost` writes hosts that `accelet devices` finds devices on."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelet.cli import main
from accelet.fakehost.__main__ import main as write_host
from accelet.fakehost.amd import ALL_AMD
from accelet.fakehost.nodes import ALL_NODES
from accelet.fakehost.nvidia import ALL_NVIDIA
from accelet.fakehost.tpu import HOSTS


@pytest.mark.parametrize("shape", [*ALL_NODES, *ALL_AMD, *ALL_NVIDIA, *HOSTS])
def test_every_shape_is_a_host_with_devices(tmp_path: Path, shape: str) -> None:
    folder = tmp_path / shape
    assert write_host([shape, str(folder)]) is None
    words = ["--config", str(folder / "config.yaml")] if shape.startswith(("amd", "nvidia")) else []
    shown = CliRunner().invoke(main, ["devices", "--host-root", str(folder), "--json", *words])
    found = json.loads(shown.stdout)
    assert any(resource["devices"] for resource in found["resources"])


def test_wrong_words_are_told_what_there_is(tmp_path: Path) -> None:
    for words in ([], ["v5e-8"], ["v99", str(tmp_path / "new")]):
        assert "SHAPE is one of flex, max" in str(write_host(words))
    assert not (tmp_path / "new").exists()


def test_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "mine").touch()
    assert "is not empty" in str(write_host(["max", str(tmp_path)]))
    assert [path.name for path in (tmp_path / "sys").iterdir()] == ["mine"]
