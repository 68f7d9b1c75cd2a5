import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelet.cli import main
from accelet.control.installed import explain_install
from accelet.runtime.settings import SettingsError
from accelet.scheduler.cluster.topology import PRESETS, Scheme
from accelet.scheduler.settings import DEFAULT_SETTINGS, read_settings


def _file(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def test_without_levels_the_network_is_gkes(tmp_path: Path) -> None:
    assert read_settings(_file(tmp_path, "version: v1")) == DEFAULT_SETTINGS
    assert DEFAULT_SETTINGS.scheme() == Scheme()


def test_levels_become_a_scheme(tmp_path: Path) -> None:
    text = """
version: v1
starving_after_s: 60
levels:
  - {name: zone, weight: 100, labels: [z, old-z]}
  - {name: host, weight: 1, labels: [h, old-h]}
"""
    settings = read_settings(_file(tmp_path, text))
    assert settings.scheme() == Scheme(("zone", "host"), (100, 1), (("z", "h"), ("old-z", "old-h")))
    assert settings.starving_after_s == 60


def test_each_preset_is_a_scheme_and_can_be_set(tmp_path: Path) -> None:
    for name, scheme in PRESETS.items():
        settings = read_settings(_file(tmp_path, f"version: v1\ntopology: {name}"))
        assert settings.scheme() == scheme
        for labels in scheme.label_sets:
            assert len(set(labels)) == len(labels)
            assert scheme.path({label: str(number) for number, label in enumerate(labels)}) == tuple(
                str(number) for number in range(len(labels))
            )
    every = [labels for scheme in PRESETS.values() for labels in scheme.label_sets]
    assert len(set(every)) == len(every), "what a node has tells which it is"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: v1\ntopology: ring", "topology: must be one of"),
        (
            "version: v1\ntopology: aws\nlevels: [{name: a, weight: 1, labels: [x]}]",
            "topology: levels says the levels already",
        ),
        ("", "the file is empty; say version: v1"),
        ("version: v2", "version: must be one of v1, not 'v2'"),
        ("version: v1\nstarving: 3", "starving: is not a setting"),
        ("version: v1\nquiet_s: soon", "quiet_s: must be"),
        (
            "version: v1\nlevels: [{name: a, weight: 1, labels: [x]}, {name: b, weight: 2, labels: [y]}]",
            "do not rise",
        ),
        (
            "version: v1\nlevels: [{name: a, weight: 2, labels: [x]}, {name: b, weight: 1, labels: [y, z]}]",
            "every level needs as many labels as the others",
        ),
        ("version: v1\nlevels: [{name: a, weight: 2, labels: []}]", "every set of labels needs"),
        ("version: v1\nmoves: {packs: true}", "packs: is read with propose: true alone"),
        ("version: v1\nmoves: {propose: true, improve_factor: 0.5}", "improve_factor: must be"),
        ("version: v1\nmoves: {propose: true, most_improvements_an_hour: -1}", "an_hour: must be"),
        ("version: v1\nadmission: {topology: racks}", "is read with kueue: true alone"),
        (
            "version: v1\nadmission: {kueue: true, topology: r}\nlevels: [{name: a, weight: 2, labels: [x]}]",
            "says the levels already",
        ),
    ],
)
def test_settings_that_are_wrong_say_where_and_exit_with_2(tmp_path: Path, text: str, sentence: str) -> None:
    file = _file(tmp_path, text)
    with pytest.raises(SettingsError) as refusal:
        read_settings(file)
    assert sentence in str(refusal.value)
    assert str(refusal.value).startswith(f"{file}:")


def test_an_empty_gate_prefix_is_refused() -> None:
    result = CliRunner().invoke(main, ["scheduler", "--gate-prefix", ""])
    assert result.exit_code == 2
    assert "would lift every gate" in result.stderr


def test_without_numpy_the_commands_say_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('No module named numpy', name='numpy')")
    script = "from accelet.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", script, "plan", "--nodes", "x"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == f"Error: plan needs numpy: {explain_install('scheduler')}\n"
