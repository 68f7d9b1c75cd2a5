"""A fresh Debian below a folder with what README asks of a machine, and a person in it who is not root."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.newcomer.documents import PROJECT

PACKAGES: Final = ("ca-certificates", "git", "make", "pipx", "python3", "python3-venv")
"""What README names, pip's certificates, pipx, by which it installs the commands, and git, by which
whoever has a checkout has it."""

NAME: Final = "newcomer"
_HOME: Final = f"/home/{NAME}"
_CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"
_MAKE_S: Final = 900.0
_PASSED_ON: Final = ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "http_proxy", "https_proxy", "no_proxy")


class MachineError(Exception):
    """The fresh root cannot be made; says why."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A root file system of its own; processes have their own process ids, and end with the command."""

    root: Path

    @property
    def checkout(self) -> Path:
        return self.root / _HOME[1:] / "accelet"

    def type(self, script: str, within_s: float) -> "subprocess.CompletedProcess[str]":
        """What a person types in the checkout, with a virtual environment of hers; both outputs in one.

        Raises TimeoutExpired; then everything that she started was ended.
        """
        entered = f'cd ~/accelet && . ~/own/bin/activate && export PATH="$HOME/.local/bin:$PATH"\n{script}'
        return self._run(
            ["setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--clear-groups", "bash", "-c", entered],
            within_s,
        )

    def prepare(self) -> None:
        """A person with a checkout of what git tracks here, and a virtual environment of hers."""
        self._as_root(f"useradd --create-home --shell /bin/bash {NAME}")
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT,
            check=True,
            capture_output=True,
        )
        for name in filter(None, tracked.stdout.decode().split("\0")):
            if not os.path.lexists(PROJECT / name):
                continue
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, self.checkout / name, follow_symlinks=False)
        # Tests of the archives ask git what it tracks: a checkout is a repository.
        if (PROJECT / ".git").is_dir():
            shutil.copytree(PROJECT / ".git", self.checkout / ".git", symlinks=True)
        self._as_root(f"chown -R {NAME}:{NAME} {_HOME} && su {NAME} -c 'python3 -m venv ~/own'")

    def _as_root(self, script: str) -> None:
        done = self._run(["bash", "-c", script], _MAKE_S)
        if done.returncode:
            raise MachineError(f"{script}: {done.stdout[-2000:]}")

    def _run(self, words: list[str], within_s: float) -> "subprocess.CompletedProcess[str]":
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {
            "HOME": _HOME,
            "USER": NAME,
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin",
            "LANG": "C.UTF-8",
        }
        environment |= {"PIP_CERT": f"/{_CERTIFICATES}", "TERM": "dumb", "ACCELET_HOST_ROOT": "/srv/node"}
        separate = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        return subprocess.run(
            [*separate, "chroot", str(self.root), *words],
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
            check=False,
        )


@contextmanager
def fresh_machine(folder: Path, suite: str = "bookworm") -> Iterator[Machine]:
    """Debian's `suite` with PACKAGES below `folder`, gone afterwards; made by root with debootstrap.

    Raises MachineError.
    """
    root = folder / "root"
    if os.geteuid() or shutil.which("debootstrap") is None:
        raise MachineError("a fresh Debian is made by root with debootstrap: apt-get install debootstrap")
    words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
    made = subprocess.run(words, capture_output=True, text=True, timeout=_MAKE_S, check=False)
    if made.returncode:
        raise MachineError(f"debootstrap: {(made.stdout + made.stderr)[-2000:]}")
    shutil.copy2("/etc/resolv.conf", root / "etc/resolv.conf")
    # Whoever is behind a proxy with certificates of its own has them on the machine.
    shutil.copyfile(f"/{_CERTIFICATES}", root / _CERTIFICATES)
    subprocess.run(["mount", "--bind", "/dev", str(root / "dev")], check=True)
    try:
        yield Machine(root)
    finally:
        subprocess.run(["umount", str(root / "dev")], check=True)
        shutil.rmtree(root)
