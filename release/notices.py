"""THIRD_PARTY_NOTICES.txt: which packages of others an image holds, and under which licences."""

import importlib.metadata
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from release.debianlock import DebianLock
from release.errors import ReleaseError
from release.licences import Notice, problems, spdx_licence
from release.requirements import canonical

_HEADING: Final = re.compile(r"^== (?P<name>\S+) (?P<version>\S+)\nLicence: (?P<licence>.*)$", re.MULTILINE)
_LICENCE_FILE: Final = re.compile(r"(?i)(licen[cs]e|copying|notice|authors)")
_INTRODUCTION: Final = """\
The container image of accelet holds these packages of others. This file is made with it, from its locks.

The packages of Debian are listed at the end; each has its licence in the image, in
/usr/share/doc/PACKAGE/copyright. The wheel and the source archive of accelet hold no code of others.
"""


def make_notices(packages: Path, locked: Mapping[str, Sequence[str]], debian: DebianLock) -> str:
    """The file's content, from a folder in which at least the locked versions, by names, are installed.

    Raises:
        ReleaseError: a package is missing, has another version, no licence text or a licence not allowed.
    """
    notices = [notice for notice in read_notices(packages) if notice.name in locked]
    found = [*problems(notices, locked)]
    if found:
        raise ReleaseError("\n".join(found))
    return render_notices(notices, debian)


def read_notices(packages: Path) -> list[Notice]:
    """The notices of what is installed in a folder, by names."""
    found = importlib.metadata.distributions(path=[str(packages)])
    return sorted(map(_notice, found), key=lambda notice: notice.name)


def render_notices(notices: Sequence[Notice], debian: DebianLock) -> str:
    """The file's content."""
    return "\n".join(_parts(notices, debian))


def parse_notices(text: str) -> list[Notice]:
    """The notices of the Python packages that a file of this content has, without their texts."""
    return [Notice(found["name"], found["version"], found["licence"]) for found in _HEADING.finditer(text)]


def _parts(notices: Sequence[Notice], debian: DebianLock) -> Iterator[str]:
    yield _INTRODUCTION
    for notice in notices:
        yield f"== {notice.name} {notice.version}\nLicence: {notice.licence}\n"
        for text in notice.texts:
            yield "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"
    yield "== From Debian\n"
    for name, version in sorted({(one.name, one.version) for one in debian.packages}):
        yield f"{name} {version}"
    yield ""


def _notice(distribution: importlib.metadata.Distribution) -> Notice:
    metadata = distribution.metadata
    name = canonical(metadata["Name"])
    said = {key: metadata.get_all(key) or [] for key in ("License-Expression", "License", "Classifier")}
    expression, text = (next(iter(said[key]), None) for key in ("License-Expression", "License"))
    licence = spdx_licence(name, expression, text, said["Classifier"])
    files = sorted(
        (str(path), path)
        for path in distribution.files or []
        if _LICENCE_FILE.search(path.name) and ".dist-info" in str(path) and path.suffix != ".py"
    )
    texts = tuple(path.read_text(encoding="utf-8") for _, path in files)
    return Notice(name, distribution.version, licence, texts)
