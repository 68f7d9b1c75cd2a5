"""`python -m release`: locks of Debian packages, notices, an image's files, and whole releases."""

import argparse
import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from release.debianarchive import newest_packages
from release.debianlock import ARCHITECTURES, parse_lock, render_lock
from release.errors import ReleaseError
from release.making import make_release
from release.notices import make_notices
from release.places import DEBIAN_LOCK, DEV_LOCK, IMAGE_LOCK, this_architecture
from release.requirements import locked_versions
from release.rootfs import make_base, make_project


def cache_folder() -> Path:
    """Where what was fetched once stays."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "accelet", "debian")


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "lock-debian":
            _lock_debian()
        elif options.command == "notices":
            options.out.write_text(_notices_of_this_environment())
        elif options.command == "newer":
            return _tell_newer()
        elif options.command == "root":
            _make_root(options.folder, options.architecture or this_architecture())
        elif options.command == "make":
            make_release(options.version, options.out, options.key, cache_folder(), _say)
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _lock_debian() -> None:
    """A lock of the same packages stays as it is."""
    newest = newest_packages()
    if not DEBIAN_LOCK.exists() or parse_lock(DEBIAN_LOCK.read_text()).packages != newest.packages:
        DEBIAN_LOCK.write_text(render_lock(newest))


def _make_root(folder: Path, architecture: str) -> None:
    base, project = folder / "base", folder / "project"
    for each in (base, project):
        each.mkdir(parents=True)
    make_base(base, architecture, cache_folder())
    make_project(project, base, architecture, cache_folder())


def _notices_of_this_environment() -> str:
    """What an image's notices are, but for packages of which this Python has an older version."""
    held = locked_versions(IMAGE_LOCK.read_text()).keys()
    tested = locked_versions(DEV_LOCK.read_text())
    packages = Path(sysconfig.get_path("purelib"))
    return make_notices(packages, {name: tested[name] for name in held}, parse_lock(DEBIAN_LOCK.read_text()))


def _tell_newer() -> int:
    """Whether Debian has newer versions of what is locked, and which of them are security updates."""
    locked = {(one.architecture, one.name): one for one in parse_lock(DEBIAN_LOCK.read_text()).packages}
    newer = [one for one in newest_packages().packages if locked[one.architecture, one.name] != one]
    for one in newer:
        kind = "security update" if one.archive == "debian-security" else "newer version"
        was = locked[one.architecture, one.name].version
        sys.stderr.write(f"{one.architecture} {one.name} {was}: {kind} {one.version}\n")
    return 1 if any(one.archive == "debian-security" for one in newer) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lock-debian", help="lock the newest versions in Debian's stable suites")
    notices = commands.add_parser("notices", help="write the notices of what is locked and installed here")
    notices.add_argument("out", type=Path, help="a file; an image has it as THIRD_PARTY_NOTICES.txt")
    commands.add_parser("newer", help="tell what Debian has newer; 1 if there are security updates")
    make = commands.add_parser("make", help="every file of a release")
    make.add_argument("version")
    make.add_argument("out", type=Path, help="a folder that is not there yet")
    make.add_argument("--key", type=Path, help="a private key in PEM, which signs the checksums")
    root = commands.add_parser("root", help="FOLDER/base and FOLDER/project, the layers of an image")
    root.add_argument("folder", type=Path)
    root.add_argument("--architecture", choices=("", *ARCHITECTURES), help="by default that of this machine")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
