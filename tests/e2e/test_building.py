"""Binaries are built once, and a build that was cut short never counts. No cluster is started here."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import MODULES_FOLDER, NEWEST_KUBERNETES
from tests.e2e.cluster.building import BuildError, Module, build_into_cache

# Stands for the compiler: notes every call, and writes what it is asked to write after -o.
COMPILER = """\
#!/bin/sh
echo called >> "$CALLS"
while [ "$1" != -o ]; do shift; done
[ -e "$BROKEN" ] && { echo half > "$2"; echo 'no such package' >&2; exit 1; }
echo whole > "$2"
"""
GO_MOD = """\
module example

tool (
\texample.com/cmd/one // a comment
\texample.com/cmd/two
)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """A module of two binaries; the file `broken` beside it makes the compiler fail."""
    compiler = tmp_path / "bin" / "go"
    compiler.parent.mkdir()
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("BROKEN", str(tmp_path / "broken"))
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text(GO_MOD)
    (tmp_path / "cache").mkdir()
    return Module(folder)


def calls(tmp_path: Path) -> int:
    return len((tmp_path / "calls").read_text().splitlines())


def test_second_build_takes_what_the_first_made(module: Module, tmp_path: Path) -> None:
    said: list[str] = []
    first = build_into_cache(module, tmp_path / "cache", said.append)
    second = build_into_cache(module, tmp_path / "cache", said.append)

    assert first == second
    assert sorted(path.name for path in first.iterdir()) == ["one", "two"]
    assert calls(tmp_path) == 2
    assert said[0] == "building one (module) ..."


def test_builders_at_the_same_time_build_once(module: Module, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as builders:
        folders = set(
            builders.map(lambda _: build_into_cache(module, tmp_path / "cache", lambda _: None), range(4))
        )

    assert len(folders) == 1
    assert calls(tmp_path) == 2


def test_failed_build_says_why_and_leaves_nothing_that_looks_finished(module: Module, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(BuildError, match=r"(?s)cmd/one failed.*no such package"):
        build_into_cache(module, tmp_path / "cache", lambda _: None)

    (tmp_path / "broken").unlink()
    folder = build_into_cache(module, tmp_path / "cache", lambda _: None)

    assert (folder / "one").read_text() == "whole\n"


def test_changed_pin_is_built_anew(module: Module, tmp_path: Path) -> None:
    before = build_into_cache(module, tmp_path / "cache", lambda _: None)
    (module.folder / "go.sum").write_text("another\n")

    assert build_into_cache(module, tmp_path / "cache", lambda _: None) != before


def test_kubernetes_is_stamped_with_the_version_it_is_pinned_to() -> None:
    kubernetes = Module(MODULES_FOLDER / NEWEST_KUBERNETES)

    assert set(kubernetes.packages()) == {
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    }
    assert "-X k8s.io/component-base/version.gitVersion=v1.36." in kubernetes.build_flags()[-1]
    assert "version.gitMinor=36" in kubernetes.build_flags()[-1]
