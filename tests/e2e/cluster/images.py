"""Write container images as docker archives, without Docker, a registry or a network."""

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.cluster.containerd import PAUSE_IMAGE

BUSYBOX_IMAGE = "accelet.dev/e2e/busybox:1"
BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder with all below it, or (`link_to`) a symbolic link, at a path in the image."""

    path: str
    source: Path | None = None
    link_to: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """One layer and how to start it."""

    name: str
    entries: Sequence[Entry]
    entrypoint: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def write_archive(image: Image, archive: Path) -> Path:
    """Writes the image; everything in it belongs to root. Returns the path of the archive."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        for entry in image.entries:
            _add(tar, entry)
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    config = {
        "architecture": _architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Env": [f"{key}={value}" for key, value in image.env.items()],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image.name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        _add_json(tar, "config.json", config)
        _add_json(tar, "manifest.json", manifest)
    layer.unlink()
    return archive


def pause_image(folder: Path) -> Path:
    """What holds a pod's namespaces: it need only sleep."""
    entries = [Entry("bin/busybox", BUSYBOX)]
    image = Image(PAUSE_IMAGE, entries, ["/bin/busybox", "sleep", "2147483647"])
    return write_archive(image, folder / "pause.tar")


def busybox_image(folder: Path) -> Path:
    """A shell and the usual small commands."""
    commands = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    links = [Entry(f"bin/{name}", link_to="busybox") for name in commands if name != "busybox"]
    image = Image(BUSYBOX_IMAGE, [Entry("bin/busybox", BUSYBOX), *links], ["/bin/sh"], {"PATH": "/bin"})
    return write_archive(image, folder / "busybox.tar")


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    if entry.source is not None:
        tar.add(entry.source, entry.path, filter=_owned_by_root)
        return
    link = tarfile.TarInfo(entry.path)
    link.type = tarfile.SYMTYPE
    link.linkname = entry.link_to or ""
    tar.addfile(link)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _add_json(tar: tarfile.TarFile, name: str, document: object) -> None:
    content = json.dumps(document).encode()
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _architecture() -> str:
    """Of the busybox and the Python the images are made of, in Go's words."""
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
