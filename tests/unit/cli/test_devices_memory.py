"""`accelet devices` where the kernel does not tell how much memory cards have."""

import json
from pathlib import Path

from click.testing import CliRunner

from accelet.cli import main
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import ARC, ARC_I915, GIB


def show(folder: Path, *options: str) -> str:
    shown = CliRunner().invoke(main, ["devices", "--host-root", str(folder), *options])
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_a_discrete_card_whose_memory_is_not_known_is_named_with_its_id(tmp_path: Path) -> None:
    write_gpus(tmp_path, (*ARC_I915, ARC[1]))
    text = show(tmp_path)
    assert "the memory of card0 (0x56a5) is not known: set `memory`" in text
    assert text.count("is not known") == 1
    i915, xe, *_ = json.loads(show(tmp_path, "--json"))["resources"]
    assert (i915["unknown_memory"], xe["unknown_memory"]) == (["card0 (0x56a5)"], [])
    assert [one["memory_bytes"] for one in i915["devices"] + xe["devices"]] == [None, 12 * GIB]


def test_of_an_integrated_card_nothing_is_missing(tmp_path: Path) -> None:
    write_gpus(tmp_path, ARC)
    assert "is not known" not in show(tmp_path)
