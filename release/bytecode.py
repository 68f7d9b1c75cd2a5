"""Bytecode for an image's Python, which is not the Python that makes the image."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from release.errors import ReleaseError
from release.places import INTERPRETER, machine_of, this_architecture


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Python in a folder that is laid out as a root, run where it is: no chroot and no root are needed."""

    root: Path

    def compile(self, root: Path, folders: Sequence[str]) -> None:
        """Writes bytecode of all below these folders of `root`, the same whenever it is written.

        Unchecked: an image's files never change. Bytecode is the same for every processor.

        Raises:
            ReleaseError: a file cannot be compiled, and which.
        """
        options = ["-q", "-f", "--invalidation-mode=unchecked-hash", "-s", str(root), "-p", "/"]
        paths = [str(root / folder) for folder in folders]
        done = subprocess.run(
            [*self._command(), "-S", "-m", "compileall", *options, *paths],
            env={"PYTHONHASHSEED": "0", "PYTHONHOME": str(self.root / "usr"), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ReleaseError(f"bytecode cannot be written: {(done.stdout + done.stderr)[-2000:]}")

    def _command(self) -> list[str]:
        """Started by the root's own loader, with the root's own libraries."""
        machine = machine_of(this_architecture())
        libraries = self.root / f"usr/lib/{machine}-linux-gnu"
        (loader,) = (*libraries.glob("ld-linux*"),)
        return [str(loader), "--library-path", str(libraries), str(self.root / INTERPRETER)]
