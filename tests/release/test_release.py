"""A whole release, made twice, and judged by what did not make it: sha256sum, tar, cryptography, SPDX.

make test-release        # fetches what is locked, for both architectures; some minutes
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import accelet
from release.places import IMAGE_LOCK, IMAGE_NOTICES, NOTICES, PROJECT
from release.requirements import parse_pins

pytestmark = pytest.mark.timeout(1800)

ARCHITECTURES = ("amd64", "arm64")
MACHINE = {"amd64": 62, "arm64": 183}
"""How ELF files name their processor."""


def make(out: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "release", "make", accelet.__version__, str(out), *words]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key.pem"
    private = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(private.private_bytes(serialization.Encoding.PEM, *form))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    out = tmp_path_factory.mktemp("release") / "first"
    done = make(out, "--key", str(key))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def layout(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image archive, unpacked."""
    folder = tmp_path_factory.mktemp("layout")
    (archive,) = made.glob("*-image.tar")
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def roots(layout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each architecture's files, its layers laid over each other by tar."""
    (named,) = json.loads((layout / "index.json").read_text())["manifests"]
    found = {}
    for manifest in blob(layout, named)["manifests"]:
        root = tmp_path_factory.mktemp("root")
        for layer in blob(layout, manifest)["layers"]:
            unpack = [
                "tar",
                "--extract",
                "--gzip",
                "--no-same-owner",
                "--file",
                str(blob_path(layout, layer)),
            ]
            subprocess.run([*unpack, "--directory", str(root)], check=True)
        found[manifest["platform"]["architecture"]] = root
    return found


def blob_path(layout: Path, descriptor: dict[str, Any]) -> Path:
    name: str = descriptor["digest"].removeprefix("sha256:")
    path = layout / "blobs/sha256" / name
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == path.name
    assert len(content) == descriptor["size"]
    return path


def blob(layout: Path, descriptor: dict[str, Any]) -> Any:
    return json.loads(blob_path(layout, descriptor).read_bytes())


def regular_files(root: Path) -> dict[str, Path]:
    paths = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(root)): path for path in paths}


def test_every_file_is_there_and_as_the_checksums_say(made: Path) -> None:
    version = accelet.__version__
    assert {path.name for path in made.iterdir()} == {
        f"accelet-{version}-py3-none-any.whl",
        f"accelet-{version}.tar.gz",
        f"accelet-{version}-image.tar",
        f"accelet-{version}-chart.tgz",
        *(f"accelet-{version}-{name}.spdx.json" for name in ARCHITECTURES),
        f"accelet-{version}.provenance.json",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=made, check=True)
    listed = {line.split()[1] for line in (made / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in made.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}


def test_signature_is_the_keys_and_of_these_checksums(made: Path, key: Path) -> None:
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    signature, checksums = (made / "SHA256SUMS.sig").read_bytes(), (made / "SHA256SUMS").read_bytes()
    private.public_key().verify(signature, checksums, ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        private.public_key().verify(signature, checksums + b" ", ec.ECDSA(hashes.SHA256()))


def test_second_run_gives_the_same_digests(made: Path, tmp_path: Path) -> None:
    done = make(tmp_path / "second")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "second/SHA256SUMS").read_text() == (made / "SHA256SUMS").read_text()


def test_image_is_there_for_both_architectures(layout: Path, roots: dict[str, Path]) -> None:
    assert set(roots) == set(ARCHITECTURES)
    for architecture, root in roots.items():
        contents = (path.read_bytes() for path in regular_files(root).values())
        machines = {int.from_bytes(data[18:20], "little") for data in contents if data[:4] == b"\x7fELF"}
        assert machines == {MACHINE[architecture]}


def test_image_starts_as_the_dockerfile_says(layout: Path) -> None:
    (named,) = json.loads((layout / "index.json").read_text())["manifests"]
    for manifest in blob(layout, named)["manifests"]:
        config = blob(layout, blob(layout, manifest)["config"])
        assert config["config"]["Entrypoint"] == ["/usr/local/bin/accelet"]
        assert config["config"]["Cmd"] == ["agent"]
        assert config["config"]["Labels"]["org.opencontainers.image.version"] == accelet.__version__
        assert "$" not in json.dumps(config["config"]["Labels"])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bill_of_materials_covers_every_file_of_the_image(
    architecture: str, made: Path, roots: dict[str, Path]
) -> None:
    (path,) = made.glob(f"*-{architecture}.spdx.json")
    document = json.loads(path.read_text())
    told = {
        file["fileName"].removeprefix("./"): {
            one["algorithm"]: one["checksumValue"] for one in file["checksums"]
        }
        for file in document["files"]
    }
    held = {
        name: {
            "SHA1": hashlib.sha1(content, usedforsecurity=False).hexdigest(),
            "SHA256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in (
            (name, path.read_bytes()) for name, path in regular_files(roots[architecture]).items()
        )
    }
    assert told == held


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bill_of_materials_is_valid_by_the_tools_of_spdx(architecture: str, made: Path) -> None:
    """By the standard's own validator, of locks/tools.txt; half a minute each."""
    (path,) = made.glob(f"*-{architecture}.spdx.json")
    validator = PROJECT / ".venv-tools/bin/pyspdxtools"
    command = [str(validator), "--infile", str(path), "--version", "SPDX-2.3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bill_of_materials_names_every_locked_package_and_whose_each_file_is(
    architecture: str, made: Path
) -> None:
    (path,) = made.glob(f"*-{architecture}.spdx.json")
    document = json.loads(path.read_text())
    told = {(package["name"], package.get("versionInfo")) for package in document["packages"]}
    assert {(pin.name, pin.version) for pin in parse_pins(IMAGE_LOCK.read_text())} <= told
    assert ("accelet", accelet.__version__) in told
    related = [one for one in document["relationships"] if one["relationshipType"] == "CONTAINS"]
    owners = {one["relatedSpdxElement"]: one["spdxElementId"] for one in related}
    assert {file["SPDXID"] for file in document["files"]} <= owners.keys()
    own = [file["fileName"] for file in document["files"] if owners[file["SPDXID"]] == "SPDXRef-Image"]
    assert not [name for name in own if name.endswith((".so", ".py"))], "only generated files are nobody's"


def test_provenance_is_of_these_files(made: Path) -> None:
    (path,) = made.glob("*.provenance.json")
    statement = json.loads(path.read_text())
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    files = {one: made / one for one in subjects}
    assert subjects == {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
    assert {path.name for path in made.iterdir()} - subjects.keys() == {
        path.name,
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }


def test_wheel_of_the_release_says_its_version(made: Path) -> None:
    (wheel,) = made.glob("*.whl")
    shown = subprocess.run(
        [sys.executable, "-c", "import accelet; print(accelet.__version__, accelet.__file__)"],
        env={"PYTHONPATH": str(wheel)},
        cwd=made,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith(f"{accelet.__version__} {wheel}/")


def test_notices_are_the_same_in_wheel_source_archive_and_images(made: Path, roots: dict[str, Path]) -> None:
    wanted = (roots["amd64"] / IMAGE_NOTICES).read_bytes()
    assert (roots["arm64"] / IMAGE_NOTICES).read_bytes() == wanted
    about = f"accelet-{accelet.__version__}"
    (wheel,), (source,) = made.glob("*.whl"), made.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as files:
        assert files.read(f"{about}.dist-info/licenses/{NOTICES}") == wanted
        assert f"License-File: {NOTICES}" in files.read(f"{about}.dist-info/METADATA").decode()
    with tarfile.open(source) as tar:
        held = tar.extractfile(f"{about}/{NOTICES}")
        assert held is not None
        assert held.read() == wanted
    for pin in parse_pins(IMAGE_LOCK.read_text()):
        assert f"== {pin.name} {pin.version}\n".encode() in wanted


@pytest.mark.parametrize(
    ("version", "reason"), [("99.0", "not 99.0"), (accelet.__version__, "is there already")]
)
def test_release_that_cannot_be_is_refused_with_a_sentence(version: str, reason: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "release", "make", version, str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
