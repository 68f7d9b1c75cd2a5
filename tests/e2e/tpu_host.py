"""A TPU host: the tree that the agent looks at, and its device files on a node."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelet.fakehost.tpu import HOSTS
from tests.e2e.cluster.mount_points import MountPointClaim
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workspace import Workspace

VFIO = Path("/dev/vfio")
NULL = (1, 3)
"""The device numbers of /dev/null, which every chip stands for."""


@contextmanager
def tpu_chips(node: Node, workspace: Workspace, root: Path, host: str = "v5e-8") -> Iterator[None]:
    """Makes the tree of a host below `root`; the node has the device files where nobody else does."""
    HOSTS[host].write(root)
    files = sorted((root / "dev/vfio").iterdir())
    for path in files:
        path.unlink()
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*NULL))
    for path in (root / "sys/class/vfio").glob("*/dev"):
        path.write_text("{}:{}\n".format(*NULL))
    if not VFIO.exists():
        workspace.claim(MountPointClaim(str(VFIO)))
        VFIO.mkdir()
    node.run(["mount", "-t", "tmpfs", "tmpfs", str(VFIO)])
    try:
        for path in files:
            node.run(["mknod", "-m", "0666", str(VFIO / path.name), "c", *map(str, NULL)])
        yield
    finally:
        node.run(["umount", str(VFIO)])
