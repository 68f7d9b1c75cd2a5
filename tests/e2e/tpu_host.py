"""A host of eight TPU chips: the tree that the agent looks at, and its device files on a node."""

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
def eight_chips(node: Node, workspace: Workspace, root: Path) -> Iterator[None]:
    """Makes the tree of a v5e-8 below `root`; the node has the device files where nobody else does."""
    HOSTS["v5e-8"].write(root)
    for path in (root / "dev/vfio").iterdir():
        path.unlink()
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*NULL))
    for path in (root / "sys/class/vfio").glob("*/dev"):
        path.write_text("{}:{}\n".format(*NULL))
    if not VFIO.exists():
        workspace.claim(MountPointClaim(str(VFIO)))
        VFIO.mkdir()
    node.run(["mount", "-t", "tmpfs", "tmpfs", str(VFIO)])
    try:
        for name in ("vfio", *(str(group) for group in range(8))):
            node.run(["mknod", "-m", "0666", str(VFIO / name), "c", *map(str, NULL)])
        yield
    finally:
        node.run(["umount", str(VFIO)])
