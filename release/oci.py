"""Images of several architectures as one OCI layout, in one tar file, without a daemon or a registry."""

import gzip
import hashlib
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from release.dockerfile import ImageSettings

_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"

Descriptor = Mapping[str, Any]
"""How one blob names another: `mediaType`, `digest`, `size`."""


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """An image for one architecture; `layers` are tar files, the lowest first."""

    architecture: str
    layers: Sequence[Path]


class Layout:
    """An OCI layout in a folder, as it is filled."""

    def __init__(self, folder: Path, made_s: int) -> None:
        """`made_s` is the time that everything is said to be of, in seconds since 1970."""
        self._blobs = folder / "blobs/sha256"
        self._blobs.mkdir(parents=True)
        self._folder, self._made_s = folder, made_s
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def write(self, images: Sequence[PlatformImage], settings: ImageSettings, name: str, tag: str) -> str:
        """Writes images as one of several architectures, called `name:tag`; returns its digest."""
        manifests = [self._add_image(image, settings) for image in images]
        index = self._add_json(_INDEX, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests})
        names = {"io.containerd.image.name": f"{name}:{tag}", "org.opencontainers.image.ref.name": tag}
        named = {**index, "annotations": names}
        top = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]}
        (self._folder / "index.json").write_text(_json(top))
        return str(index["digest"])

    def pack(self, archive: Path) -> Path:
        """Writes the layout as one tar file; returns its path."""
        with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
            for path in sorted(self._folder.rglob("*")):
                if path.is_file():
                    member = tarfile.TarInfo(str(path.relative_to(self._folder)))
                    member.size, member.mtime = path.stat().st_size, self._made_s
                    with path.open("rb") as content:
                        tar.addfile(member, content)
        return archive

    def _add_image(self, image: PlatformImage, settings: ImageSettings) -> Descriptor:
        layers = [self._add_layer(layer) for layer in image.layers]
        config = self._add_json(_CONFIG, self._config(image, settings))
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
        platform = {"architecture": image.architecture, "os": "linux"}
        return {**self._add_json(_MANIFEST, manifest), "platform": platform}

    def _config(self, image: PlatformImage, settings: ImageSettings) -> Mapping[str, Any]:
        created = datetime.fromtimestamp(self._made_s, UTC).isoformat().replace("+00:00", "Z")
        return {
            "architecture": image.architecture,
            "os": "linux",
            "created": created,
            "config": {
                "Entrypoint": list(settings.entrypoint),
                "Cmd": list(settings.command),
                "Env": [f"{key}={value}" for key, value in settings.env.items()],
                "User": settings.user,
                "Labels": dict(settings.labels),
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in image.layers]},
            "history": [{"created": created, "created_by": "release"} for _ in image.layers],
        }

    def _add_layer(self, layer: Path) -> Descriptor:
        packed = self._blobs / "packing"
        with (
            layer.open("rb") as content,
            packed.open("wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as blob,
        ):
            shutil.copyfileobj(content, blob, 1 << 20)
        size, digest = packed.stat().st_size, _digest(packed)
        packed.rename(self._blobs / digest)
        return {"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": size}

    def _add_json(self, media_type: str, value: object) -> Descriptor:
        content = _json(value).encode()
        digest = hashlib.sha256(content).hexdigest()
        (self._blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
