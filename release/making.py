"""A release: archives for the package index, the image, what is in it, where it is from, and signatures."""

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from release.chart import pack_chart
from release.debianlock import ARCHITECTURES
from release.dockerfile import ImageSettings, read_dockerfile
from release.errors import ReleaseError
from release.layers import write_layer
from release.licences import spdx_licence
from release.oci import Layout, PlatformImage
from release.places import IMAGE_NOTICES, LOCKS, NOTICES, PACKAGES, PROJECT, this_architecture
from release.provenance import make_provenance, render_checksums
from release.requirements import canonical
from release.rootfs import make_base, make_project
from release.sbom import ImageFile, Package, make_sbom

CHECKSUMS: Final = "SHA256SUMS"
_STATUS: Final = "var/lib/dpkg/status.d"


@dataclass(frozen=True, slots=True)
class Source:
    """What a release is made of: its version, the commit, and the time that everything is said to be of."""

    version: str
    revision: str
    made_s: int

    @property
    def created(self) -> str:
        return datetime.fromtimestamp(self.made_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_release(version: str, out: Path, key: Path | None, cache: Path, say: Callable[[str], None]) -> None:
    """Writes every file of a release into `out`, which must not be there; `key` is a PEM private key.

    Raises:
        ReleaseError: the version is another than the project's, or something cannot be made.
    """
    source = _read_source(version)
    if out.exists():
        raise ReleaseError(f"{out} is there already; remove it, or name another folder")
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        images = []
        for architecture in sorted(ARCHITECTURES, key=lambda name: name != this_architecture()):
            say(f"image for {architecture}")
            image, sbom = _make_image(Path(folder, architecture), architecture, source, cache)
            images.append(image)
            (out / f"accelet-{version}-{architecture}.spdx.json").write_text(sbom)
        say("wheel, source archive and chart")
        notices = Path(folder, this_architecture(), "base", IMAGE_NOTICES).read_text()
        _make_archives(out, source, notices)
        pack_chart(PROJECT / "deploy/chart", out / f"accelet-{version}-chart.tgz", source.made_s)
        say("image archive")
        layout = Layout(Path(folder, "layout"), source.made_s)
        layout.write(sorted(images, key=lambda one: one.architecture), _settings(source), "accelet", version)
        layout.pack(out / f"accelet-{version}-image.tar")
    _vouch(out, source, key)


def _read_source(version: str) -> Source:
    text = (PROJECT / "accelet/__init__.py").read_text()
    known = re.search(r'^__version__ = "(.*)"', text, re.MULTILINE)
    if known is None or known[1] != version:
        raise ReleaseError(
            f"accelet/__init__.py says {known and known[1]}, not {version}; change one of them"
        )
    dirty = "-dirty" if _git("status", "--porcelain") else ""
    return Source(version, _git("rev-parse", "HEAD") + dirty, int(_git("log", "-1", "--format=%ct")))


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"a release is made in a git checkout: {done.stderr.strip()}")
    return done.stdout.strip()


def _make_archives(out: Path, source: Source, notices: str) -> None:
    with _lying_in_the_project(notices):
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--directory", str(out)],
            cwd=PROJECT,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(source.made_s)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ReleaseError(f"wheel and source archive cannot be built: {done.stderr.strip()[-2000:]}")


@contextmanager
def _lying_in_the_project(notices: str) -> Iterator[None]:
    """Puts the notices where hatchling takes licence files from (pyproject.toml), while it builds."""
    path = PROJECT / NOTICES
    path.write_text(notices)
    try:
        yield
    finally:
        path.unlink()


def _make_image(folder: Path, architecture: str, source: Source, cache: Path) -> tuple[PlatformImage, str]:
    base, project = folder / "base", folder / "project"
    for root in (base, project):
        root.mkdir(parents=True)
    make_base(base, architecture, cache)
    make_project(project, base, architecture, cache)
    layers = [write_layer(root, folder / f"{root.name}.tar", source.made_s) for root in (base, project)]
    files = sorted((*_files(base), *_files(project)), key=lambda file: file.path)
    packages = [*_debian_packages(base, architecture), *_python_packages(base), *_python_packages(project)]
    sbom = make_sbom(f"accelet-{source.version}-{architecture}", source.created, packages, files)
    return PlatformImage(architecture, layers), json.dumps(sbom, indent=1, sort_keys=True) + "\n"


def _files(root: Path) -> Iterator[ImageFile]:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            digests = (hashlib.new(name, content).hexdigest() for name in ("sha1", "sha256"))
            yield ImageFile(str(path.relative_to(root)), *digests)


def _debian_packages(root: Path, architecture: str) -> Iterator[Package]:
    for path in sorted((root / _STATUS).glob("*.md5sums")):
        control = path.with_suffix("").read_text()
        fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and line[0] != " ")
        owned = {line.split(None, 1)[1] for line in path.read_text().splitlines()}
        settings = path.with_suffix(".conffiles")
        owned |= {line.lstrip("/") for line in settings.read_text().split()} if settings.exists() else set()
        purl = f"pkg:deb/debian/{fields['Package']}@{fields['Version']}?arch={architecture}"
        yield Package(fields["Package"], fields["Version"], purl, "", frozenset(owned))


def _python_packages(root: Path) -> Iterator[Package]:
    for found in importlib.metadata.distributions(path=[str(root / PACKAGES)]):
        name = canonical(found.metadata["Name"])
        said = {key: found.metadata.get_all(key) or [] for key in ("License-Expression", "License")}
        expression, text = (next(iter(one), None) for one in said.values())
        licence = spdx_licence(name, expression, text, found.metadata.get_all("Classifier") or [])
        owned = frozenset(f"{PACKAGES}/{path}" for path in found.files or [])
        yield Package(name, found.version, f"pkg:pypi/{name}@{found.version}", licence, owned)


def _settings(source: Source) -> ImageSettings:
    settings = read_dockerfile(PROJECT / "Dockerfile")
    said = {"${VERSION}": source.version, "${REVISION}": source.revision}
    return replace(settings, labels={key: said.get(value, value) for key, value in settings.labels.items()})


def _vouch(out: Path, source: Source, key: Path | None) -> None:
    """Provenance, checksums and, with a key, the signature of the checksums, which cover all the rest."""
    locks = _digests(path for path in LOCKS.iterdir() if path.suffix in (".txt", ".lock"))
    provenance = make_provenance(source.version, source.revision, _digests(out.iterdir()), locks)
    text = json.dumps(provenance, indent=1, sort_keys=True) + "\n"
    (out / f"accelet-{source.version}.provenance.json").write_text(text)
    checksums = out / CHECKSUMS
    checksums.write_text(render_checksums(_digests(out.iterdir())))
    if key is not None:
        sign = ["openssl", "dgst", "-sha256", "-sign", str(key), "-out", f"{checksums}.sig", str(checksums)]
        done = subprocess.run(sign, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ReleaseError(f"{key} cannot sign: {done.stderr.strip().splitlines()[-1]}")


def _digests(paths: Iterator[Path]) -> Mapping[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
