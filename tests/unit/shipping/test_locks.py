"""The locks are of what pyproject.toml asks for, of one version each, and every file of it has a hash."""

import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from release.debianarchive import fetch
from release.debianlock import (
    ARCHITECTURES,
    PACKAGES,
    DebianLock,
    DebianPackage,
    parse_index,
    parse_lock,
    render_lock,
)
from release.errors import ReleaseError
from release.places import DEBIAN_LOCK, IMAGE_LOCK, LOCKS, PROJECT
from release.requirements import Pin, canonical, parse_pins

DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
EXTRAS: Mapping[str, list[str]] = DECLARED["optional-dependencies"]
OURSELVES = "accelet (pyproject.toml)"


def pins(path: Path) -> list[Pin]:
    return [*parse_pins(path.read_text())]


def declared(*extras: str) -> list[Requirement]:
    """What these extras ask for, and what is asked for anyway."""
    found = [*DECLARED["dependencies"]]
    for extra in extras:
        found += EXTRAS[extra]
    ours = [Requirement(one) for one in found]
    nested = {extra for one in ours if one.name == DECLARED["name"] for extra in one.extras} - set(extras)
    others = [one for one in ours if one.name != DECLARED["name"]]
    return [*others, *(declared(*sorted(nested)) if nested else ())]


def drift(wanted: Iterable[Requirement], locked: list[Pin], who: str) -> Iterator[str]:
    """What is locked otherwise than it is asked for."""
    by_name = {
        canonical(one.name): [pin for pin in locked if pin.name == canonical(one.name)] for one in wanted
    }
    for one in wanted:
        found = by_name[canonical(one.name)]
        if not found:
            yield f"{one.name} is not locked"
        yield from (
            f"{pin.name} {pin.version} is not {one}" for pin in found if pin.version not in one.specifier
        )
    for pin in locked:
        if who in pin.via and pin.name not in by_name:
            yield f"{pin.name} is locked and nobody asks for it"


@pytest.mark.parametrize(
    ("path", "extras"),
    [(LOCKS / "dev.txt", ["dev"]), (IMAGE_LOCK, ["gke", "scheduler"])],
    ids=["dev", "image"],
)
def test_lock_is_what_the_project_asks_for(path: Path, extras: list[str]) -> None:
    found = [*drift(declared(*extras), pins(path), OURSELVES)]
    assert found == [], "run 'make lock'"


@pytest.mark.parametrize("name", ["build", "proto", "tools"])
def test_locks_of_tools_are_what_their_lists_ask_for(name: str) -> None:
    lines = (LOCKS / f"{name}.in").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert [*drift(wanted, pins(LOCKS / f"{name}.txt"), f"-r locks/{name}.in")] == [], "run 'make lock'"


def test_drift_is_seen() -> None:
    locked = [Pin("click", "8.5.1", "", ("0" * 64,), (OURSELVES,))]
    assert [*drift([Requirement("click>=8")], locked, OURSELVES)] == []
    assert [*drift([Requirement("click>=9")], locked, OURSELVES)] == ["click 8.5.1 is not click>=9"]
    assert [*drift([Requirement("rich")], locked, OURSELVES)] == [
        "rich is not locked",
        "click is locked and nobody asks for it",
    ]


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.name)
def test_every_line_is_a_version_with_its_hashes(path: Path) -> None:
    """A lock that pip would not hold to hashes, or that these tests would not see, has other lines."""
    text = path.read_text()
    found = pins(path)
    assert len(found) == sum(line[:1].isalnum() for line in text.splitlines())
    assert sum(len(pin.hashes) for pin in found) == text.count("--hash=")
    assert all(pin.hashes for pin in found)


def test_image_has_the_versions_that_are_tested() -> None:
    tested = {(pin.name, pin.version) for pin in pins(LOCKS / "dev.txt")}
    assert {(pin.name, pin.version) for pin in pins(IMAGE_LOCK)} <= tested
    assert {(pin.name, pin.version) for pin in pins(LOCKS / "build.txt")} <= tested


def test_both_architectures_hold_the_same_of_debian() -> None:
    lock = parse_lock(DEBIAN_LOCK.read_text())
    assert lock.snapshot
    held = [{one.name: one.version for one in lock.of(architecture)} for architecture in ARCHITECTURES]
    assert held[0] == held[1]
    assert set(held[0]) == set(PACKAGES)


words = st.text("abcdefghijklmnopqrstuvwxyz0123456789.+~:-", min_size=1, max_size=20)
packages = st.builds(
    DebianPackage, words, words, words, st.text("0123456789abcdef", min_size=64, max_size=64), words, words
)


@given(words, st.lists(packages, unique=True))
def test_lock_of_debian_packages_reads_as_it_was_written(snapshot: str, found: list[DebianPackage]) -> None:
    lock = DebianLock(snapshot, tuple(sorted(found)))
    assert parse_lock(render_lock(lock)) == lock


@pytest.mark.parametrize("line", ["amd64 libc6", "a b c d e f", "snapshot"])
def test_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(ReleaseError, match="line 2"):
        parse_lock(f"# lock\n{line}\n")


def test_index_of_an_archive_is_read() -> None:
    text = "Package: a\nVersion: 1\nDescription: x\n more: y\nFilename: pool/a.deb\nSHA256: 0\n\nPackage: b\n"
    text += "Version: 2:1\nFilename: pool/b.deb\nSHA256: 1\n"
    assert [*parse_index(text, "debian", "amd64")] == [
        DebianPackage("amd64", "a", "1", "0", "debian", "pool/a.deb"),
        DebianPackage("amd64", "b", "2:1", "1", "debian", "pool/b.deb"),
    ]


@pytest.fixture
def package() -> DebianPackage:
    return DebianPackage("amd64", "a", "1", hashlib.sha256(b"content").hexdigest(), "debian", "pool/a.deb")


def fetched(package: DebianPackage, folder: Path, *served: Path) -> bytes:
    addresses = [f"file://{each}/{{path}}" for each in served]
    return fetch(DebianLock("now", (package,)), [package], folder, addresses)["a"].read_bytes()


def serving(folder: Path, content: bytes) -> Path:
    (folder / "pool").mkdir(parents=True)
    (folder / "pool/a.deb").write_bytes(content)
    return folder


def test_package_that_the_mirror_no_longer_has_comes_from_elsewhere(
    package: DebianPackage, tmp_path: Path
) -> None:
    assert fetched(package, tmp_path / "kept", tmp_path / "empty", serving(tmp_path / "old", b"content"))
    assert fetched(package, tmp_path / "kept") == b"content", "what is there is not asked for again"


def test_other_package_than_the_locked_one_is_refused(package: DebianPackage, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"a\.deb is not what the lock says"):
        fetched(package, tmp_path / "kept", serving(tmp_path / "forged", b"other"))
    assert [*(tmp_path / "kept").iterdir()] == []


def test_kept_package_that_was_changed_is_fetched_again(package: DebianPackage, tmp_path: Path) -> None:
    mirror = serving(tmp_path / "mirror", b"content")
    fetched(package, tmp_path / "kept", mirror)
    for kept in (tmp_path / "kept").iterdir():
        kept.write_bytes(b"changed")
    assert fetched(package, tmp_path / "kept", mirror) == b"content"


def test_package_that_is_nowhere_is_named(package: DebianPackage, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"cannot be fetched: .*pool/a\.deb"):
        fetched(package, tmp_path / "kept", tmp_path / "empty")
