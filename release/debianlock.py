"""The lock of Debian packages: which versions, from where, with which SHA-256."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from release.errors import ReleaseError

ARCHITECTURES: Final = ("amd64", "arm64")

PACKAGES: Final = (
    "base-files",
    "ca-certificates",
    "gcc-14-base",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.13-minimal",
    "libpython3.13-stdlib",
    "libssl3t64",
    "libstdc++6",
    "libuuid1",
    "libzstd1",
    "netbase",
    "python3.13-minimal",
    "tzdata",
    "zlib1g",
)
"""What an image holds of Debian: Python, the libraries its modules and our packages load, certificates.

No shell, no package manager, and none of what only readline, curses, dbm and sqlite3 would load.
"""


@dataclass(frozen=True, slots=True, order=True)
class DebianPackage:
    """One package of one architecture (`all` included). `archive` is `debian` or `debian-security`."""

    architecture: str
    name: str
    version: str
    sha256: str
    archive: str
    path: str

    @property
    def file_name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class DebianLock:
    """`snapshot` is when the archive held all of these, as snapshot.debian.org writes times."""

    snapshot: str
    packages: tuple[DebianPackage, ...]

    def of(self, architecture: str) -> tuple[DebianPackage, ...]:
        """What an image of this architecture holds.

        Raises:
            ReleaseError: nothing is locked for it.
        """
        chosen = tuple(one for one in self.packages if one.architecture == architecture)
        if not chosen:
            raise ReleaseError(f"no packages are locked for {architecture}; there are {ARCHITECTURES}")
        return chosen


def parse_lock(text: str) -> DebianLock:
    """The lock that a file of this content is.

    Raises:
        ReleaseError: a line is none of a lock, and which.
    """
    snapshot, packages = "", []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "snapshot" and len(words) == 2:
            snapshot = words[1]
        elif len(words) == 6 and len(words[3]) == 64:
            packages.append(DebianPackage(*words))
        else:
            raise ReleaseError(f"line {number} of the lock of Debian packages is not understood: {line!r}")
    return DebianLock(snapshot, tuple(packages))


def render_lock(lock: DebianLock) -> str:
    """The file's content: one line a package, in order, so that a change is a line in a diff."""
    return "\n".join(_lines(lock)) + "\n"


def _lines(lock: DebianLock) -> Iterator[str]:
    yield "# What images hold of Debian. Written by `make lock`: do not edit."
    yield "# architecture name version sha256 archive path"
    yield f"snapshot {lock.snapshot}"
    for one in sorted(lock.packages):
        yield " ".join((one.architecture, one.name, one.version, one.sha256, one.archive, one.path))


def parse_index(text: str, archive: str, architecture: str) -> Iterator[DebianPackage]:
    """The packages that an archive's index (`Packages`) lists."""
    for paragraph in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " "
        )
        if "Package" in fields:
            yield DebianPackage(
                architecture,
                fields["Package"],
                fields["Version"],
                fields["SHA256"],
                archive,
                fields["Filename"],
            )


def missing(wanted: Sequence[str], found: Iterable[DebianPackage]) -> list[str]:
    """The names that no package has."""
    return sorted(set(wanted) - {one.name for one in found})
