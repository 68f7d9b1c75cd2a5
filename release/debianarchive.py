"""Debian's archive: indexes whose signatures are checked, and packages whose SHA-256 is."""

import hashlib
import lzma
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from release.debianlock import (
    ARCHITECTURES,
    PACKAGES,
    DebianLock,
    DebianPackage,
    missing,
    parse_index,
)
from release.errors import ReleaseError

MIRROR: Final = "http://deb.debian.org"
"""Without TLS: everything from there is held to a signature or a hash."""

ADDRESSES: Final = (
    MIRROR + "/{archive}/{path}",
    "http://snapshot.debian.org/archive/{archive}/{snapshot}/{path}",
)
"""Where a package is; the second keeps what the mirror has replaced by newer ones."""

SUITES: Final = (("debian", "trixie"), ("debian", "trixie-updates"), ("debian-security", "trixie-security"))
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TIMEOUT_S: Final = 60.0
_MOST_BYTES: Final = 128 << 20


def newest_packages(names: Sequence[str] = PACKAGES) -> DebianLock:
    """The newest version of each package in Debian's stable suites, security updates included.

    Raises:
        ReleaseError: an index cannot be had or believed, or a package is in none.
    """
    packages: list[DebianPackage] = []
    for architecture in ARCHITECTURES:
        newest: dict[str, DebianPackage] = {}
        for archive, suite in SUITES:
            for found in parse_index(_index(archive, suite, architecture), archive, architecture):
                if found.name in names and _is_newer(found, newest.get(found.name)):
                    newest[found.name] = found
        if absent := missing(names, newest.values()):
            raise ReleaseError(f"Debian has no {', '.join(absent)} for {architecture}")
        packages += newest.values()
    return DebianLock(datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"), tuple(sorted(packages)))


def fetch(
    lock: DebianLock,
    wanted: Iterable[DebianPackage],
    folder: Path,
    addresses: Sequence[str] = ADDRESSES,
) -> Mapping[str, Path]:
    """The files of packages by their names, in `folder`, where they are looked for first.

    Raises:
        ReleaseError: a package cannot be had, or is another than the lock says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for one in wanted:
        urls = [
            address.format(archive=one.archive, path=one.path, snapshot=lock.snapshot)
            for address in addresses
        ]
        found[one.name] = _fetch(one, urls, folder / f"{one.sha256[:16]}-{one.file_name}")
    return found


def _fetch(package: DebianPackage, urls: Sequence[str], place: Path) -> Path:
    if not place.exists() or _sha256(place.read_bytes()) != package.sha256:
        content = _first(urls)
        if _sha256(content) != package.sha256:
            raise ReleaseError(
                f"{package.file_name} is not what the lock says: {_sha256(content)}, not {package.sha256}"
            )
        half_done = place.with_suffix(f".{os.getpid()}")
        half_done.write_bytes(content)
        half_done.rename(place)
    return place


def _index(archive: str, suite: str, architecture: str) -> str:
    """An index that the suite's signed Release file vouches for."""
    base = f"{MIRROR}/{archive}/dists/{suite}"
    name = f"main/binary-{architecture}/Packages.xz"
    release = _signed(_first([f"{base}/InRelease"]), suite)
    hashes = release.partition("\nSHA256:\n")[2]
    wanted = next((line.split()[0] for line in hashes.splitlines() if line.split()[-1:] == [name]), None)
    content = _first([f"{base}/{name}"])
    if _sha256(content) != wanted:
        raise ReleaseError(f"{base}/{name} is not what Debian signed; try again when the mirror is settled")
    return lzma.decompress(content).decode()


def _signed(content: bytes, suite: str) -> str:
    """The text that Debian's keys signed."""
    with tempfile.TemporaryDirectory() as folder:
        given, text = Path(folder, "InRelease"), Path(folder, "Release")
        given.write_bytes(content)
        done = subprocess.run(
            ["gpgv", "--keyring", KEYRING, "--output", text, given],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ReleaseError(f"the signature of {suite} is not Debian's: {done.stderr.strip()}")
        return text.read_text()


def _is_newer(found: DebianPackage, known: DebianPackage | None) -> bool:
    if known is None:
        return True
    compare = ["dpkg", "--compare-versions", found.version, "gt", known.version]
    return subprocess.run(compare, check=False).returncode == 0


def _first(urls: Sequence[str]) -> bytes:
    """The content of the first address that has one."""
    reasons = []
    for url in urls:
        try:
            with urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310  # our own addresses
                content: bytes = answer.read(_MOST_BYTES)
                return content
        except (URLError, OSError) as error:
            reasons.append(f"{url}: {error}")
    raise ReleaseError("cannot be fetched: " + "; ".join(reasons))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
