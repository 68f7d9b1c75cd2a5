"""Messages and names, as the kubelet wants them."""

import socket
from pathlib import Path
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, UnitId
from accelet.accelerators.edits import ContainerEdits, DeviceNode, Mount
from accelet.accelerators.steadyhealth import SteadyHealth
from accelet.kubelet.paths import MAX_SOCKET_PATH
from deviceplugin import translate
from deviceplugin.sockets import PREFIX, make_socket_name, remove_stale_sockets
from resourcemanager.listing import Listed, Listing

ids = st.text("abc019._-", min_size=1, max_size=63).map(DeviceId)
entries = st.builds(
    Listed,
    st.sampled_from([HEALTHY, Health("sick")]).map(SteadyHealth),
    st.lists(st.integers(0, 1000), unique=True, max_size=2).map(tuple),
)


@given(st.dictionaries(ids, entries, max_size=40))
def test_list_message_says_what_the_listing_says_and_is_no_larger_than_reckoned(
    listed: dict[DeviceId, Listed],
) -> None:
    message = translate.to_list_message(Listing(MappingProxyType(listed)))
    devices = [Device(name, UnitId("unit"), numa_nodes=entry.numa_nodes) for name, entry in listed.items()]
    assert message.ByteSize() <= translate.worst_list_bytes(devices) <= message.ByteSize() + 7 * len(listed)
    for device in message.devices:
        entry = listed[DeviceId(device.ID)]
        assert (device.health == "Healthy") is entry.health.is_healthy
        assert device.HasField("topology") is bool(entry.numa_nodes)
        assert tuple(node.ID for node in device.topology.nodes) == entry.numa_nodes


def test_allocate_message_carries_nodes_mounts_and_environment() -> None:
    edits = ContainerEdits(
        (DeviceNode("/dev/a", "/dev/b", "rw"),), (Mount("/m", "/n", read_only=True),), {"X": "1"}
    )
    message = translate.to_allocate_message(edits, {"accelet.dev/allocation": "t"})
    assert [(n.host_path, n.container_path, n.permissions) for n in message.devices] == [
        ("/dev/a", "/dev/b", "rw")
    ]
    assert [(m.host_path, m.container_path, m.read_only) for m in message.mounts] == [("/m", "/n", True)]
    assert dict(message.envs) == {"X": "1"}
    assert dict(message.annotations) == {"accelet.dev/allocation": "t"}


@given(st.text(min_size=1, max_size=300), st.integers(1, 75))
def test_socket_names_are_unique_and_fit_where_any_would(resource: str, depth: int) -> None:
    directory = Path("/" + "d" * depth)
    one, other = make_socket_name(directory, resource), make_socket_name(directory, resource)
    assert one != other
    assert one.startswith(PREFIX)
    assert "/" not in one
    assert len(bytes(directory / one)) <= MAX_SOCKET_PATH


def test_only_sockets_of_ours_are_removed_and_none_where_the_directory_is_gone(tmp_path: Path) -> None:
    for name in ("accelet-a-1.sock", "other.sock"):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(tmp_path / name))
    (tmp_path / "accelet-b-2.sock").touch()
    assert remove_stale_sockets(tmp_path) == ["accelet-a-1.sock"]
    assert {path.name for path in tmp_path.iterdir()} == {"other.sock", "accelet-b-2.sock"}
    assert remove_stale_sockets(tmp_path / "gone") == []
