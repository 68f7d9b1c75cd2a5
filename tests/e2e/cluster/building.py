"""Build the binaries a small Go module pins, once for every content of that module."""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.cache import locked
from tests.e2e.cluster.gomod import GoMod

KUBERNETES = "k8s.io/kubernetes"
# Takes a line that tells how far a build is.
Progress = Callable[[str], None]
BUILD_TAGS = "no_btrfs"


class BuildError(Exception):
    """The Go compiler refused; its words are in the message."""


@dataclass(frozen=True, slots=True)
class Module:
    """A folder with go.mod and go.sum: its `tool` lines, and its main.go if it has one, are what is built."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    def packages(self) -> dict[str, str]:
        """The package each binary is built from, by the binary's name."""
        packages = {path.rpartition("/")[2]: path for path in self._go_mod().tools}
        return packages | ({self.name: "."} if (self.folder / "main.go").exists() else {})

    def digest(self) -> str:
        """Changes with whatever changes the binaries."""
        content = hashlib.sha256(repr(self.build_flags()).encode())
        for path in sorted(each for each in self.folder.iterdir() if each.is_file()):
            content.update(path.name.encode() + b"\0" + path.read_bytes())
        return content.hexdigest()[:16]

    def build_flags(self) -> list[str]:
        stamp = _version_stamp(self._go_mod().requires.get(KUBERNETES))
        return ["-trimpath", "-buildvcs=false", f"-tags={BUILD_TAGS}", f"-ldflags=-s -w{stamp}"]

    def _go_mod(self) -> GoMod:
        return GoMod.parse((self.folder / "go.mod").read_text())


def build_into_cache(module: Module, cache: Path, progress: Progress) -> Path:
    """The folder with the module's binaries. Who comes while another one builds waits, and takes those."""
    finished = cache / f"{module.name}-{module.digest()}"
    if finished.exists():
        return finished
    with locked(
        cache / f"{finished.name}.lock", lambda: progress(f"waiting for another build of {module.name}")
    ):
        if not finished.exists():
            half_done = cache / f"{finished.name}.half-done"
            if half_done.exists():
                shutil.rmtree(half_done)
            half_done.mkdir()
            _build(module, half_done, progress)
            half_done.rename(finished)
    return finished


def _build(module: Module, target: Path, progress: Progress) -> None:
    for name, package in module.packages().items():
        progress(f"building {name} ({module.name}) ...")
        started = time.monotonic()
        done = subprocess.run(
            ["go", "build", *module.build_flags(), "-o", target / name, package],
            cwd=module.folder,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(f"go build {package} failed in {module.folder}:\n{done.stdout[-4000:]}")
        progress(f"built {name} in {time.monotonic() - started:.0f} s")


def _version_stamp(version: str | None) -> str:
    """An unstamped API server calls itself v0.0.0, and then refuses features."""
    if version is None:
        return ""
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "".join(f" -X k8s.io/component-base/version.{key}={value}" for key, value in values.items())
