"""Where a driver has its files and sockets."""

import os
from dataclasses import dataclass
from pathlib import Path

from accelet.kubelet.paths import MAX_SOCKET_PATH

DEFAULT_CDI_FOLDER = Path("/var/run/cdi")


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one driver, as the kubelet names them too.

    `token` is of this process alone: no socket's path is ever used twice, so that the kubelet tells one
    registration from the next.
    """

    kubelet: Path
    cdi: Path
    driver: str
    token: str

    @property
    def folder(self) -> Path:
        return self.kubelet / "plugins" / self.driver

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.json"

    @property
    def lock(self) -> Path:
        return self.folder / "serialize.lock"

    @property
    def service_socket(self) -> Path:
        return self.folder / f"dra-{self.token}.sock"

    @property
    def registration_folder(self) -> Path:
        return self.kubelet / "plugins_registry"

    @property
    def registration_socket(self) -> Path:
        """Named for the driver, or by the token alone where Linux takes no path so long."""
        path = self.registration_folder / f"{self.driver}-{self.token}-reg.sock"
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
        return self.registration_folder / f"{self.token}-reg.sock"

    def stale_sockets(self) -> list[Path]:
        """Sockets of earlier processes; those of this one are not among them."""
        found = [
            *self.folder.glob("dra-*.sock"),
            *self.registration_folder.glob(f"{self.driver}-*-reg.sock"),
        ]
        return sorted(path for path in found if self.token not in path.name and path.is_socket())


def has_record(kubelet: Path, driver: str) -> bool:
    """Whether the driver has ever prepared anything here, so that the kubelet may want it undone."""
    return Places(kubelet, Path(), driver, "").checkpoint.exists()
