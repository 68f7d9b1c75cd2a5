"""The image that is shipped, for this machine's processor: made of the locks, without Docker."""

import hashlib
import shutil
import tempfile
from pathlib import Path

from release.dockerfile import read_dockerfile
from release.layers import write_layer
from release.places import DEBIAN_LOCK, IMAGE_LOCK, PROJECT, this_architecture
from release.rootfs import make_base, make_project
from tests.e2e.cluster.cache import cache_folder, locked
from tests.e2e.cluster.images import Image


def python_image(name: str, archive: Path) -> Path:
    """Writes an image that starts as the one of the project's Dockerfile does; returns the archive's path.

    What is locked comes from Debian and the package index, once: it is a layer of its own, kept as long as
    the locks stay the same.
    """
    base, base_layer = _base()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        root.mkdir()
        make_project(root, base, this_architecture(), cache_folder("debian"))
        own_layer = write_layer(root, Path(folder, "layer.tar"), 0)
        settings = read_dockerfile(PROJECT / "Dockerfile")
        image = Image(
            name,
            [base_layer, own_layer],
            settings.entrypoint,
            settings.env,
            settings.command,
            settings.user,
        )
        return image.write(archive)


def _base() -> tuple[Path, Path]:
    """The folder and the layer of what is locked, in the cache."""
    digest = hashlib.sha256()
    for path in (DEBIAN_LOCK, IMAGE_LOCK, *sorted((PROJECT / "release").glob("*.py"))):
        digest.update(path.read_bytes())
    made = cache_folder("images") / f"base-{digest.hexdigest()[:16]}"
    root, layer = made / "root", made / "layer.tar"
    with locked(made.with_suffix(".lock")):
        if not made.exists():
            half_done = made.with_suffix(".half-done")
            shutil.rmtree(half_done, ignore_errors=True)
            (half_done / "root").mkdir(parents=True)
            make_base(half_done / "root", this_architecture(), cache_folder("debian"))
            write_layer(half_done / "root", half_done / "layer.tar", 0)
            half_done.rename(made)
    return root, layer
