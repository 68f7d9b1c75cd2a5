"""An image's files as two folders: what is locked (Debian's Python, our dependencies), and this project."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from release.bytecode import Interpreter
from release.debianarchive import fetch
from release.debianlock import parse_lock
from release.errors import ReleaseError
from release.notices import make_notices
from release.places import (
    CERTIFICATES,
    COMMAND,
    DEBIAN_LOCK,
    IMAGE_LOCK,
    IMAGE_NOTICES,
    INTERPRETER,
    PACKAGES,
    PROJECT,
    PYTHON,
    machine_of,
    this_architecture,
)
from release.requirements import locked_versions

_LEFT_OUT: Final = ("usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man")
_COPYRIGHT: Final = "copyright"
_OLDEST_GLIBC, _GLIBC = 17, 41
_LAUNCHER: Final = f"""\
#!/{INTERPRETER}
import sys
from accelet.cli import main
sys.exit(main())
"""


def make_base(root: Path, architecture: str, cache: Path) -> None:
    """Puts Debian's packages and the Python packages of the locks below `root`, an empty folder.

    Raises:
        ReleaseError: something locked cannot be had, or is another than the lock says.
    """
    _unpack_debian(root, architecture, cache)
    _add_certificates(root)
    (root / "usr/bin/python3").symlink_to(PYTHON)
    (root / "usr/bin/python").symlink_to(PYTHON)
    for name, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("root", 0o700)):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    _install(root / PACKAGES, architecture, "--require-hashes", "--no-deps", f"--requirement={IMAGE_LOCK}")
    _add_notices(root)
    with _interpreter(root, architecture, cache) as interpreter:
        interpreter.compile(root, [f"usr/lib/{PYTHON}", PACKAGES])


def make_project(root: Path, base: Path, architecture: str, cache: Path) -> None:
    """Puts this project below `root`, an empty folder, to lie over `base`."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = make_wheel(Path(folder))
        version = wheel.name.split("-")[1]
        found = ("--no-index", "--find-links", folder, "--no-deps", f"accelet=={version}")
        _install(root / PACKAGES, architecture, *found)
    launcher = root / COMMAND
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_LAUNCHER)
    launcher.chmod(0o755)
    with _interpreter(base, architecture, cache) as interpreter:
        interpreter.compile(root, [PACKAGES])


def make_wheel(folder: Path) -> Path:
    """The project's wheel, by the locked build tools of the environment that this runs in."""
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(PROJECT))
    (wheel,) = folder.glob("accelet-*.whl")
    return wheel


def _unpack_debian(root: Path, architecture: str, cache: Path) -> None:
    lock = parse_lock(DEBIAN_LOCK.read_text())
    files = fetch(lock, lock.of(architecture), cache)
    for name in sorted(files, key=lambda name: (name != "base-files", name)):  # it makes /lib a link
        subprocess.run(["dpkg-deb", "--extract", files[name], root], check=True)
    _drop_what_only_people_read(root)
    _tell_what_is_installed(root, files)


def _drop_what_only_people_read(root: Path) -> None:
    """Manuals and translations go; each package's copyright stays."""
    for name in _LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if not path.is_dir() and path.name != _COPYRIGHT:
            path.unlink()


def _tell_what_is_installed(root: Path, files: Mapping[str, Path]) -> None:
    """What scanners of images read where there is no dpkg, as distroless images have it."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    for name, file in files.items():
        with tempfile.TemporaryDirectory() as control:
            subprocess.run(["dpkg-deb", "--control", file, control], check=True)
            shutil.copyfile(Path(control, "control"), folder / name)
            for owned in ("md5sums", "conffiles"):  # the files of a package, and those that users may change
                if Path(control, owned).exists():
                    shutil.copyfile(Path(control, owned), folder / f"{name}.{owned}")


def _add_certificates(root: Path) -> None:
    """What Debian's update-ca-certificates makes: all authorities in one file, where OpenSSL looks."""
    authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / CERTIFICATES
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in authorities))
    (root / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to(f"/{CERTIFICATES}")


def _add_notices(root: Path) -> None:
    locked = locked_versions(IMAGE_LOCK.read_text())
    notices = root / IMAGE_NOTICES
    notices.parent.mkdir(parents=True)
    notices.write_text(make_notices(root / PACKAGES, locked, parse_lock(DEBIAN_LOCK.read_text())))


def _install(target: Path, architecture: str, *what: str) -> None:
    """Installs ready-made packages for the image's Python, whatever Python this is."""
    machine = machine_of(architecture)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, _OLDEST_GLIBC - 1, -1)]
    options = [f"--platform={name}" for name in (*platforms, f"manylinux2014_{machine}")]
    options += [f"--abi={name}" for name in (PYTHON.replace("python", "cp").replace(".", ""), "abi3", "none")]
    options += ["--implementation=cp", f"--python-version={PYTHON.removeprefix('python')}"]
    options.append(
        "--ignore-requires-python"
    )  # pip would ask for this Python; the lock was made for the other
    _pip("install", "--only-binary=:all:", "--no-compile", f"--target={target}", *options, *what)
    shutil.rmtree(target / "bin", ignore_errors=True)  # their first lines name the Python of this machine


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        reason = re.sub(r"\s+", " ", done.stderr.strip())[-2000:]
        raise ReleaseError(f"pip {arguments[0]} failed: {reason}")


@contextmanager
def _interpreter(root: Path, architecture: str, cache: Path) -> Iterator[Interpreter]:
    """The image's Python of this machine's architecture: that of `root`, or one unpacked beside it."""
    if architecture == this_architecture():
        yield Interpreter(root)
        return
    with tempfile.TemporaryDirectory() as folder:
        _unpack_debian(Path(folder), this_architecture(), cache)
        yield Interpreter(Path(folder))
