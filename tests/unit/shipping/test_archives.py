"""What the archives on the package index hold, and what they ask for."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from release.places import PROJECT


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def source(archives: Path) -> list[str]:
    """The paths in the source archive, below its one folder."""
    (path,) = archives.glob("*.tar.gz")
    with tarfile.open(path) as tar:
        return [name.partition("/")[2] for name in tar.getnames()]


def tracked(*folders: str) -> set[str]:
    found = subprocess.run(
        ["git", "ls-files", *folders], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    return set(found.stdout.split())


def test_source_archive_has_all_but_tests_and_benches(source: list[str]) -> None:
    everything = {path for path in tracked() if not path.startswith((".ci/", "tests/", "benches/", "."))}
    links = {path for path in everything if (PROJECT / path).is_symlink() and (PROJECT / path).is_dir()}
    behind = {f"{link}/{path.name}" for link in links for path in (PROJECT / link).glob("*.yaml")}
    assert everything - links | behind <= set(source)
    assert not [path for path in source if "tests/" in path or "benches/" in path]


def test_wheel_has_the_packages_and_nothing_else(archives: Path) -> None:
    (path,) = archives.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == tracked("accelet", "deviceplugin", "resourcemanager")


def test_base_and_testing_do_not_ask_for_the_kubernetes_package() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["testing"]]
    assert {"kubernetes", "urllib3", "numpy", "accelet"}.isdisjoint(Requirement(one).name for one in lines)


@pytest.mark.parametrize("extra", ["scheduler", "gke"])
def test_extras_that_need_the_kubernetes_package_bring_it(extra: str) -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "accelet[cluster]" in extras[extra]
    assert "kubernetes" in {Requirement(one).name for one in extras["cluster"]}
