"""Layers, archives, bills of materials, checksums of small things; `make test-release` makes whole ones."""

import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.dockerfile import ImageSettings
from release.layers import write_layer
from release.oci import Layout, PlatformImage
from release.provenance import make_provenance, render_checksums
from release.sbom import ImageFile, Package, bytecode_of, make_sbom

MADE_S = 1_700_000_000
SETTINGS = ImageSettings(["/a"], ["b"], {"PATH": "/bin"}, "0:0", {"version": "1"})


def tree(root: Path, mode: int, touched_s: int) -> Path:
    """The same files, made by somebody with another umask, at another time and in another order."""
    names = ["z/b.txt", "a.txt", "z/a/c"] if touched_s % 2 else ["z/a/c", "z/b.txt", "a.txt"]
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
        os.utime(path, (touched_s, touched_s))
    (root / "run").write_text("#!")
    (root / "run").chmod(0o700 | mode)
    (root / "link").symlink_to("a.txt")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    return root


def test_layer_is_the_same_whoever_writes_it_and_when(tmp_path: Path) -> None:
    one = write_layer(tree(tmp_path / "one", 0o600, 1), tmp_path / "one.tar", MADE_S)
    two = write_layer(tree(tmp_path / "two", 0o644, 2), tmp_path / "two.tar", MADE_S)
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as tar:
        told = {member.name: (member.mode, member.uid, member.mtime) for member in tar}
    assert told["a.txt"] == (0o644, 0, MADE_S)
    assert told["run"][0] == 0o755
    assert told["tmp"][0] == 0o1777


def test_archive_is_the_same_twice_and_each_blob_is_what_its_name_says(tmp_path: Path) -> None:
    layer = write_layer(tree(tmp_path / "root", 0o644, 1), tmp_path / "layer.tar", MADE_S)
    images = [PlatformImage(name, [layer]) for name in ("amd64", "arm64")]
    archives = []
    for name in ("one", "two"):
        layout = Layout(tmp_path / name, MADE_S)
        layout.write(images, SETTINGS, "accelet", "1")
        archives.append(layout.pack(tmp_path / f"{name}.tar").read_bytes())
    assert archives[0] == archives[1]
    for blob in (tmp_path / "one/blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    (named,) = json.loads((tmp_path / "one/index.json").read_text())["manifests"]
    assert named["annotations"]["io.containerd.image.name"] == "accelet:1"


PATHS = st.text("abc/.", min_size=1, max_size=12)


@given(st.dictionaries(PATHS, st.binary(max_size=3)), st.sets(PATHS), st.sets(PATHS))
def test_every_file_is_told_once_and_has_one_owner(
    held: dict[str, bytes], first: set[str], second: set[str]
) -> None:
    files = [
        ImageFile(
            path, hashlib.sha1(data, usedforsecurity=False).hexdigest(), hashlib.sha256(data).hexdigest()
        )
        for path, data in held.items()
    ]
    packages = [
        Package("a", "1", "pkg:pypi/a@1", "MIT", frozenset(first)),
        Package("b", "2", "pkg:deb/debian/b@2?arch=amd64", "", frozenset(second - first)),
    ]
    document = make_sbom("image", "2026-01-31T00:00:00Z", packages, files)
    ids = [file["SPDXID"] for file in document["files"]]
    assert sorted(file["fileName"] for file in document["files"]) == sorted(f"./{path}" for path in held)
    assert len(set(ids)) == len(ids)
    owners = [
        (one["relatedSpdxElement"], one["spdxElementId"])
        for one in document["relationships"]
        if one["relatedSpdxElement"] in ids
    ]
    assert sorted(file for file, _ in owners) == sorted(ids)
    known = {package["SPDXID"] for package in document["packages"]}
    assert {owner for _, owner in owners} <= known
    held_by = {
        one["SPDXID"]: sorted(
            file["checksums"][0]["checksumValue"]
            for file in document["files"]
            if (file["SPDXID"], one["SPDXID"]) in owners
        )
        for one in document["packages"]
    }
    for package in document["packages"]:
        sha1s = held_by[package["SPDXID"]]
        # Both by SPDX 2.3, 7.8 and 7.9: what holds files was analysed, and has a code over them.
        assert package["filesAnalyzed"] == bool(sha1s)
        code = hashlib.sha1("".join(sha1s).encode(), usedforsecurity=False).hexdigest()
        told = package.get("packageVerificationCode", {}).get("packageVerificationCodeValue")
        assert told == (code if sha1s else None)
        assert ("licenseInfoFromFiles" in package) == bool(sha1s)
    for path in held.keys() & first:
        (owner,) = (owner for file, owner in owners if file == ids[list(held).index(path)])
        assert owner == "SPDXRef-Package-pkg-pypi-a-1"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a/__pycache__/b.cpython-313.pyc", "a/b.py"),
        ("a/b.py", None),
        ("a/__pycache__/b.txt", None),
    ],
)
def test_bytecode_is_its_sources(path: str, source: str | None) -> None:
    assert bytecode_of(path) == source


def test_checksums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("a")
    (tmp_path / "c").write_text("c")
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    (tmp_path / "SHA256SUMS").write_text(render_checksums(digests))
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "c").write_text("d")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_provenance_names_source_locks_and_files() -> None:
    statement = make_provenance("1", "abc", {"b": "2" * 64, "a": "1" * 64}, {"image.txt": "3" * 64})
    assert [one["name"] for one in statement["subject"]] == ["a", "b"]
    made_of = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [one["name"] for one in made_of] == ["source", "image.txt"]
    assert made_of[0]["digest"] == {"gitCommit": "abc"}
