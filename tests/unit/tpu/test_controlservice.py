"""Where containers find the host's service that libtpu needs from v6e on, and whether it is there."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.controlservice import (
    PORT,
    SOCKET,
    ControlServiceCheck,
    control_service_url,
)
from accelet.accelerators.tpu.settings import ControlService, TpuSettings
from accelet.fakehost.tpu import HOSTS

VARIABLE = "VBAR_CONTROL_SERVICE_URL"
HERE = "127.0.0.1"


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server((HERE, 0)) as server:
        yield server.getsockname()[1]


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("kind", "node_ip", "url"),
    [
        ("node-ip", "10.1.2.3", "10.1.2.3:8353"),
        ("node-ip", "fd00::1", "[fd00::1]:8353"),
        ("node-ip", None, None),
        ("node-ip", "the node", None),
        ("unix", None, "unix:///var/run/tpu-plugin/vbar.sock"),
        ("none", "10.1.2.3", None),
    ],
)
def test_url_is_what_the_setting_says(kind: ControlService, node_ip: str | None, url: str | None) -> None:
    assert control_service_url(kind, node_ip) == url


@pytest.mark.parametrize(
    ("name", "is_told"), [("v4", False), ("v5e-4", False), ("v5p", False), ("v6e-4", True)]
)
def test_only_generations_that_need_the_service_are_told_of_it(
    tmp_path: Path, name: str, *, is_told: bool
) -> None:
    backend = TpuBackend(TpuSettings(), NodeFacts(ip=HERE))
    inventory = backend.scan(HOSTS[name].write(tmp_path))

    assert (VARIABLE in backend.edits(inventory, inventory.devices, {}, {}).environment) == is_told
    assert bool(inventory.warnings) == is_told  # nothing listens here


def test_socket_is_mounted_where_containers_are_to_use_it(tmp_path: Path) -> None:
    backend = TpuBackend(TpuSettings(control_service="unix", log_folder=None))
    inventory = backend.scan(HOSTS["v6e-1"].write(tmp_path))
    edits = backend.edits(inventory, inventory.devices, {}, {})

    assert edits.environment[VARIABLE] == f"unix://{SOCKET}"
    assert [(mount.host_path, mount.container_path) for mount in edits.mounts] == [
        ("/var/run/tpu-plugin", "/var/run/tpu-plugin")
    ]


def test_nothing_that_listens_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server((HERE, 0)) as server:
        free = server.getsockname()[1]

    warning = ControlServiceCheck(port=free)(tmp_path, "node-ip", HERE)

    assert warning == (
        f"libtpu asks a service at 127.0.0.1:{PORT} before it starts, and nothing answers there "
        "(Connection refused): run the TPU VM's control agent on the host, or say where it is with the "
        "setting control_service"
    )


def test_service_that_listens_is_none(tmp_path: Path, listening: int) -> None:
    assert ControlServiceCheck(port=listening)(tmp_path, "node-ip", HERE) is None


def test_service_is_asked_for_again_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    with socket.create_server((HERE, 0)) as server:
        check = ControlServiceCheck(clock, port=server.getsockname()[1])
        assert check(tmp_path, "node-ip", HERE) is None
    clock.now_s = 59.0
    assert check(tmp_path, "node-ip", HERE) is None
    clock.now_s = 60.0
    assert "Connection refused" in (check(tmp_path, "node-ip", HERE) or "")


def test_node_whose_address_is_not_known_is_a_warning(tmp_path: Path) -> None:
    assert "set --node-ip (NODE_IP)" in (ControlServiceCheck()(tmp_path, "node-ip", None) or "")


def test_socket_that_is_missing_or_no_socket_is_a_warning(tmp_path: Path) -> None:
    assert "there is no such socket" in (ControlServiceCheck()(tmp_path, "unix", None) or "")
    path = tmp_path / SOCKET.lstrip("/")
    path.parent.mkdir(parents=True)
    path.touch()
    assert "that is no socket" in (ControlServiceCheck()(tmp_path, "unix", None) or "")


def test_socket_that_is_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / SOCKET.lstrip("/")
    path.parent.mkdir(parents=True)
    monkeypatch.chdir(path.parent)  # a socket's path may have 107 bytes only
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
        assert ControlServiceCheck()(tmp_path, "unix", None) is None


def test_without_a_service_nothing_is_looked_for(tmp_path: Path) -> None:
    assert ControlServiceCheck()(tmp_path, "none", None) is None
