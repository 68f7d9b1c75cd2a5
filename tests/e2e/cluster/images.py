"""Write container images as docker archives, without Docker, a registry or a network."""

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.cluster.containerd import PAUSE_IMAGE
from tests.e2e.cluster.layer_entries import Copied, Entry, Link, Text

BUSYBOX_IMAGE = "accelet.dev/e2e/busybox:1"
BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True, slots=True)
class Image:
    """`layers` are tar files, the lowest first."""

    name: str
    layers: Sequence[Path]
    entrypoint: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    user: str = ""

    def write(self, archive: Path) -> Path:
        """Writes what `docker save` would; returns the path of the archive."""
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
            "os": "linux",
            "config": {
                "Entrypoint": list(self.entrypoint),
                "Cmd": list(self.command),
                "Env": [f"{key}={value}" for key, value in self.env.items()],
                "User": self.user,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in self.layers]},
        }
        names = [f"layer-{number}.tar" for number in range(len(self.layers))]
        manifest = [{"Config": "config.json", "RepoTags": [self.name], "Layers": names}]
        with tarfile.open(archive, "w") as tar:
            for name, layer in zip(names, self.layers, strict=True):
                tar.add(layer, name)
            Text("config.json", json.dumps(config)).add_to(tar)
            Text("manifest.json", json.dumps(manifest)).add_to(tar)
        return archive


def write_layer(entries: Iterable[Entry], path: Path) -> Path:
    """Writes one layer; everything in it belongs to root. Returns its path."""
    with tarfile.open(path, "w") as tar:
        for entry in entries:
            entry.add_to(tar)
    return path


def pause_image(folder: Path) -> Path:
    """What holds a pod's namespaces: it need only sleep."""
    layer = write_layer([Copied("bin/busybox", BUSYBOX)], folder / "pause-layer.tar")
    image = Image(PAUSE_IMAGE, [layer], ["/bin/busybox", "sleep", "2147483647"])
    return image.write(folder / "pause.tar")


def busybox_image(folder: Path, name: str = BUSYBOX_IMAGE, entrypoint: Sequence[str] = ("/bin/sh",)) -> Path:
    """A shell and the usual small commands."""
    commands = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    links = [Link(f"bin/{name}", "busybox") for name in commands if name != "busybox"]
    layer = write_layer([Copied("bin/busybox", BUSYBOX), *links], folder / "busybox-layer.tar")
    return Image(name, [layer], entrypoint, {"PATH": "/bin"}).write(folder / "busybox.tar")


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
