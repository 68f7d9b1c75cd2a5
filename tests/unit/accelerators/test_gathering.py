import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.edits import DeviceNode, Mount
from accelet.accelerators.errors import EditsError
from accelet.accelerators.gathering import gather_edits


def device(name: str, *needs: DeviceNode | Mount) -> Device:
    return Device(
        DeviceId(name),
        UnitId(name),
        nodes=tuple(need for need in needs if isinstance(need, DeviceNode)),
        mounts=tuple(need for need in needs if isinstance(need, Mount)),
    )


def test_what_two_devices_need_is_given_once_with_the_rights_of_both() -> None:
    one = device("a", DeviceNode("/dev/vfio/vfio", "/dev/vfio/vfio", "r"), Mount("/x", "/x"))
    two = device(
        "b", DeviceNode("/dev/vfio/vfio", "/dev/vfio/vfio", "wm"), Mount("/x", "/x", read_only=False)
    )
    edits = gather_edits([one, two])
    assert edits.nodes == (DeviceNode("/dev/vfio/vfio", "/dev/vfio/vfio", "rwm"),)
    assert edits.mounts == (Mount("/x", "/x", read_only=False),)


@pytest.mark.parametrize("kind", [DeviceNode, Mount])
def test_two_hosts_paths_at_one_place_are_refused(kind: type[DeviceNode] | type[Mount]) -> None:
    devices = [device("a", kind("/dev/video1", "/dev/video")), device("b", kind("/dev/video0", "/dev/video"))]
    with pytest.raises(
        EditsError, match="/dev/video0 and /dev/video1 would both be /dev/video in the container"
    ):
        gather_edits(devices)


nodes = st.sampled_from(["/dev/a", "/dev/b", "/dev/c"])
devices_of_nodes = st.lists(
    st.lists(
        st.builds(
            lambda path, rights: DeviceNode(path, path, rights), nodes, st.sampled_from(["r", "rw", "m"])
        )
    )
).map(lambda lists: [device(str(index), *needs) for index, needs in enumerate(lists)])


@given(devices_of_nodes, st.randoms())
def test_order_does_not_matter(devices: list[Device], dice: object) -> None:
    shuffled = list(devices)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert gather_edits(shuffled) == gather_edits(devices)
