"""Software bills of materials in SPDX 2.3: every file of an image, and the package it is of."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

SPDX: Final = "SPDX-2.3"
IMAGE: Final = "SPDXRef-Image"


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A regular file of an image: its path from the root (`usr/bin/python3.13`), and its digests."""

    path: str
    sha1: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Package:
    """A package and the files it owns; `purl` names it for scanners, `licence` is SPDX or empty."""

    name: str
    version: str
    purl: str
    licence: str
    files: frozenset[str]

    @property
    def spdx_id(self) -> str:
        return "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", self.purl.partition("?")[0])


def make_sbom(
    name: str, created: str, packages: Sequence[Package], files: Sequence[ImageFile]
) -> Mapping[str, Any]:
    """The document of one image.

    A file that no package owns is the image's own: what was generated while it was put together. `created`
    is a time as SPDX writes it, `2026-01-31T00:00:00Z`.
    """
    owned_by = {path: package.spdx_id for package in packages for path in package.files}
    owners = {file.path: _owner(file.path, owned_by) for file in files}
    held: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        held[owners[file.path]].append(file.sha1)
    digest = hashlib.sha256("".join(file.sha256 for file in files).encode()).hexdigest()
    return {
        "spdxVersion": SPDX,
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: accelet-release"]},
        "packages": [
            {**_image(name), **_analysis(held[IMAGE])},
            *({**_package(package), **_analysis(held[package.spdx_id])} for package in packages),
        ],
        "files": [_file(file) for file in files],
        "relationships": [*_relationships(packages, files, owners)],
    }


def bytecode_of(path: str) -> str | None:
    """The source that a file of bytecode is of; None for other files."""
    found = re.fullmatch(r"(.*/)__pycache__/([^/]+)\.cpython-\d+\.pyc", path)
    return f"{found[1]}{found[2]}.py" if found else None


def _relationships(
    packages: Sequence[Package], files: Iterable[ImageFile], owners: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    yield _related("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)
    for package in packages:
        yield _related(IMAGE, "CONTAINS", package.spdx_id)
    for file in files:
        yield _related(owners[file.path], "CONTAINS", _file_id(file.path))


def _owner(path: str, owned_by: Mapping[str, str]) -> str:
    """Whose file it is; bytecode is of the package of its source."""
    source = bytecode_of(path)
    return owned_by.get(path) or (owned_by.get(source) if source else None) or IMAGE


def _analysis(sha1s: Sequence[str]) -> Mapping[str, Any]:
    """What SPDX 2.3 wants of a package by whether the document holds files of it (7.8, 7.9).

    The verification code is of the files as they lie in the image: the SHA-1 of their sorted SHA-1s.
    """
    if not sha1s:
        return {"filesAnalyzed": False}
    code = hashlib.sha1("".join(sorted(sha1s)).encode(), usedforsecurity=False).hexdigest()
    return {
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": code},
        "licenseInfoFromFiles": ["NOASSERTION"],
    }


def _related(one: str, how: str, other: str) -> Mapping[str, str]:
    return {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other}


def _image(name: str) -> Mapping[str, Any]:
    return {
        "SPDXID": IMAGE,
        "name": name,
        "downloadLocation": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def _package(package: Package) -> Mapping[str, Any]:
    reference = {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": package.purl,
    }
    return {
        "SPDXID": package.spdx_id,
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": package.licence or "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [reference],
    }


def _file(file: ImageFile) -> Mapping[str, Any]:
    return {
        "SPDXID": _file_id(file.path),
        "fileName": f"./{file.path}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": file.sha1},
            {"algorithm": "SHA256", "checksumValue": file.sha256},
        ],
        "licenseConcluded": "NOASSERTION",
        "licenseInfoInFiles": ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def _file_id(path: str) -> str:
    return f"SPDXRef-File-{hashlib.sha256(path.encode()).hexdigest()[:32]}"
