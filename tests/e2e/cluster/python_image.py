"""An image with this machine's own Python, the project and all it needs, made without Docker."""

import hashlib
import importlib.metadata
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.cluster.cache import cache_folder, locked
from tests.e2e.cluster.dockerfile import read_dockerfile
from tests.e2e.cluster.images import Image, write_layer
from tests.e2e.cluster.layer_entries import Copied, EmptyFolder, Entry, Link, Text
from tests.e2e.cluster.shared_libraries import shared_libraries

PREFIX = "usr/local"
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE_PACKAGES = f"{PREFIX}/lib/{VERSION}/site-packages"
INTERPRETER = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
# What no service needs of the standard library, and the packages of the machine itself.
LEFT_OUT = {
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "dist-packages",
}


def python_image(name: str, project: Path, archive: Path, *, extras: Sequence[str] = ()) -> Path:
    """Writes an image that starts as the one of the project's Dockerfile does; returns the archive's path.

    `project` is a checkout. Its dependencies come from the package index, once:
    they are a layer of their own, kept as long as the list of requirements stays the same.
    """
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder, "project")
        _pip_install(installed, "--no-deps", str(project))
        (distribution,) = importlib.metadata.distributions(path=[str(installed)])
        commands = distribution.entry_points.select(group="console_scripts")
        entries: list[Entry] = [
            Copied(SITE_PACKAGES, installed, lambda name: name != "bin"),
            *map(_launcher, commands),
        ]
        own_layer = write_layer(entries, Path(folder, "layer.tar"))
        settings = read_dockerfile(project / "Dockerfile")
        image = Image(
            name,
            [_python_layer(_requirements(distribution, extras)), own_layer],
            settings.entrypoint,
            {"PATH": f"/{PREFIX}/bin:/usr/bin:/bin", **settings.env},
            settings.command,
            settings.user,
        )
        return image.write(archive)


def _python_layer(requirements: Sequence[str]) -> Path:
    """Python and the packages required, in the cache."""
    content = repr((sys.version, str(INTERPRETER), sorted(requirements), Path(__file__).read_text()))
    layer = cache_folder("images") / f"{VERSION}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.tar"
    with locked(layer.with_suffix(".lock")):
        if not layer.exists():
            with tempfile.TemporaryDirectory() as folder:
                packages = Path(folder)
                _pip_install(packages, *requirements)
                half_done = layer.with_suffix(".half-done")
                write_layer(_python_entries(packages), half_done)
                half_done.rename(layer)
    return layer


def _python_entries(packages: Path) -> Iterator[Entry]:
    modules = Path(sysconfig.get_config_var("DESTSHARED"))
    programs = [
        INTERPRETER,
        *(path for path in modules.glob("*.so") if not path.name.startswith("_tkinter")),
        *packages.rglob("*.so*"),
    ]
    yield Copied(f"{PREFIX}/bin/{VERSION}", INTERPRETER)
    yield Link(f"{PREFIX}/bin/python3", VERSION)
    yield Link(f"{PREFIX}/bin/python", VERSION)
    yield Copied(f"{PREFIX}/lib/{VERSION}", STANDARD_LIBRARY, _is_wanted)
    yield Copied(SITE_PACKAGES, packages, lambda name: name != "bin")
    # The name under which Debian's own Python looks for them.
    yield Link(f"{PREFIX}/lib/{VERSION}/dist-packages", "site-packages")
    for path, source in shared_libraries(programs).items():
        # Some packages bring libraries of their own and find them beside themselves.
        if not source.is_relative_to(packages):
            yield Copied(path, source)
    yield EmptyFolder("tmp", 0o1777)


def _is_wanted(name: str) -> bool:
    return name not in LEFT_OUT and not name.startswith(("config-", "_tkinter"))


def _requirements(distribution: importlib.metadata.Distribution, extras: Sequence[str]) -> list[str]:
    """What the project needs anyway, and for these extras."""
    wanted = []
    for line in distribution.requires or []:
        requirement, _, marker = line.partition(";")
        if "extra ==" not in marker:
            wanted.append(line)
        elif marker.split("extra ==")[1].strip(" \"'") in extras:
            wanted.append(requirement)
    return wanted


def _launcher(command: importlib.metadata.EntryPoint) -> Text:
    """What pip would write, but for the interpreter in the image."""
    content = f"""\
#!/{PREFIX}/bin/{VERSION}
import sys
from {command.module} import {command.attr}
sys.exit({command.attr}())
"""
    return Text(f"{PREFIX}/bin/{command.name}", content, 0o755)


def _pip_install(target: Path, *what: str) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--root-user-action=ignore", "--target", target, *what], check=True)
