import os
from pathlib import Path

import msgspec
import pytest
import yaml

from accelet.accelerators.device import Device
from accelet.accelerators.edits import DeviceNode, Mount
from accelet.accelerators.errors import EditsError
from accelet.accelerators.files.backend import FilesSettings, GenericDevice
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.settings import overlap


def settings(text: str) -> FilesSettings:
    return msgspec.convert(yaml.safe_load(text), FilesSettings)


def make(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).touch()
    return root


def scan(root: Path, text: str) -> Inventory:
    return settings(text).backend().scan(root)


def host_paths(device: Device) -> list[str]:
    return [*(node.host_path for node in device.nodes), *(mount.host_path for mount in device.mounts)]


def add_usb(root: Path, place: str, name: str, number: int, serial: str | None = None) -> str:
    vendor, product = name.split(":")
    folder = root / "sys/bus/usb/devices" / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "idVendor").write_text(f"{vendor}\n")
    (folder / "idProduct").write_text(f"{product}\n")
    (folder / "busnum").write_text("1\n")
    (folder / "devnum").write_text(f"{number}\n")
    if serial is not None:
        (folder / "serial").write_text(f"{serial}\n")
    node = f"/dev/bus/usb/001/{number:03d}"
    make(root, node)
    return node


class TestPaths:
    def test_each_match_is_a_device(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/video0", "/dev/video1", "/dev/fuse")
        inventory = scan(tmp_path, "paths: [/dev/fuse, /dev/video*]")
        assert [device.id for device in inventory.devices] == ["dev-fuse", "dev-video0", "dev-video1"]
        assert inventory.devices[0].nodes == (DeviceNode("/dev/fuse", "/dev/fuse", "rw"),)

    def test_shares_and_permissions_are_those_asked_for(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/fuse")
        inventory = scan(tmp_path, "{paths: [/dev/fuse], shares: 3, permissions: wmr}")
        assert [device.id for device in inventory.devices] == [f"dev-fuse-s{n}" for n in range(3)]
        assert {device.nodes[0].permissions for device in inventory.devices} == {"rwm"}

    def test_a_missing_file_names_the_unit_it_would_be_and_comes_back(self, tmp_path: Path) -> None:
        inventory = scan(tmp_path, "paths: [/dev/fuse]")
        (skip,) = inventory.skipped
        assert (skip.path, skip.code, skip.unit) == ("/dev/fuse", "no-match", "dev-fuse")
        make(tmp_path, "/dev/fuse")
        assert [device.id for device in scan(tmp_path, "paths: [/dev/fuse]").devices] == ["dev-fuse"]

    def test_a_link_that_leads_nowhere_is_skipped(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/ttyUSB0")
        (tmp_path / "dev/ttyUSB1").symlink_to("gone")
        inventory = scan(tmp_path, "paths: [/dev/ttyUSB*]")
        assert [device.id for device in inventory.devices] == ["dev-ttyUSB0"]
        assert [(skip.path, skip.code) for skip in inventory.skipped] == [("/dev/ttyUSB1", "dangling-link")]

    def test_a_path_named_twice_is_one_device(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/video0")
        inventory = scan(tmp_path, "paths: [/dev/video0, /dev/video*]")
        assert [device.id for device in inventory.devices] == ["dev-video0"]
        assert [skip.code for skip in inventory.skipped] == ["duplicate-unit"]


class TestGenericDevicePluginGroups:
    def test_its_own_example_is_read_as_it_stands(self, tmp_path: Path) -> None:
        make(
            tmp_path,
            "/dev/ttyUSB0",
            "/dev/ttyACM0",
            "/dev/video0",
            "/dev/fuse",
            "/dev/snd/controlC1",
            "/dev/snd/pcmC1D0c",
        )
        devices = msgspec.convert(yaml.safe_load(EXAMPLE)["devices"], list[GenericDevice])
        found = {device.name: device.settings().backend().scan(tmp_path).devices for device in devices}
        assert {name: len(devices) for name, devices in found.items()} == {
            "serial": 2,
            "video": 1,
            "fuse": 10,
            "audio": 10,
            "capture": 1,
        }
        assert found["capture"][0].nodes == (
            DeviceNode("/dev/snd/controlC1", "/dev/snd/controlC0", "rwm"),
            DeviceNode("/dev/snd/pcmC1D0c", "/dev/snd/pcmC0D0c", "rwm"),
        )
        assert host_paths(found["audio"][0]) == ["/dev/snd"]

    def test_the_nth_matches_go_together(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/a0", "/dev/a1", "/dev/b0", "/dev/b1", "/dev/b2")
        inventory = scan(tmp_path, "groups: [{paths: [{path: /dev/a*}, {path: /dev/b*}]}]")
        assert [host_paths(device) for device in inventory.devices] == [
            ["/dev/a0", "/dev/b0"],
            ["/dev/a1", "/dev/b1"],
        ]
        assert [(skip.path, skip.code) for skip in inventory.skipped] == [("/dev/b2", "no-partner")]

    def test_a_limit_lets_one_match_serve_several_times(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/fuse", *(f"/dev/video{n}" for n in range(5)))
        inventory = scan(tmp_path, "groups: [{paths: [{path: /dev/video*}, {path: /dev/fuse, limit: 10}]}]")
        assert [host_paths(device)[0] for device in inventory.devices] == [f"/dev/video{n}" for n in range(5)]
        assert all("/dev/fuse" in host_paths(device) for device in inventory.devices)
        assert len({device.id for device in inventory.devices}) == 5

    def test_a_limit_alone_makes_no_devices(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/fuse")
        assert len(scan(tmp_path, "groups: [{paths: [{path: /dev/fuse, limit: 10}]}]").devices) == 1

    def test_zero_and_empty_stand_for_the_default(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/fuse")
        (device,) = scan(
            tmp_path,
            "groups: [{count: 0, paths: [{path: /dev/fuse, limit: 0, permissions: '', mountPath: ''}]}]",
        ).devices
        assert device.nodes == (DeviceNode("/dev/fuse", "/dev/fuse", "rwm"),)

    def test_a_group_without_one_of_its_paths_is_none_and_says_which(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/a", "/dev/c")
        inventory = scan(
            tmp_path, "groups: [{paths: [{path: /dev/a}, {path: /dev/b*}]}, {paths: [{path: /dev/c}]}]"
        )
        assert [device.id for device in inventory.devices] == ["dev-c"]
        assert [(skip.path, skip.code) for skip in inventory.skipped] == [("/dev/b*", "no-match")]

    def test_what_is_optional_may_be_missing(self, tmp_path: Path) -> None:
        text = "groups: [{paths: [{path: /dev/a}, {path: /dev/b, optional: true}]}]"
        make(tmp_path, "/dev/a")
        assert [host_paths(device) for device in scan(tmp_path, text).devices] == [["/dev/a"]]
        make(tmp_path, "/dev/b")
        assert [host_paths(device) for device in scan(tmp_path, text).devices] == [["/dev/a", "/dev/b"]]

    def test_mounts_are_mounts(self, tmp_path: Path) -> None:
        make(tmp_path, "/usr/lib/firmware/x", "/dev/a")
        text = """
        groups:
        - paths:
          - {path: /dev/a}
          - {path: /usr/lib/firmware, mountPath: /firmware, type: Mount, readOnly: true}
        """
        (device,) = scan(tmp_path, text).devices
        assert device.mounts == (Mount("/usr/lib/firmware", "/firmware", read_only=True),)

    def test_two_devices_at_one_path_are_refused_with_a_sentence(self, tmp_path: Path) -> None:
        make(tmp_path, "/dev/video0", "/dev/video1")
        backend = settings("groups: [{paths: [{path: /dev/video*, mountPath: /dev/video}]}]").backend()
        inventory = backend.scan(tmp_path)
        assert backend.edits(inventory, inventory.devices[:1], {}, {}).nodes[0].container_path == "/dev/video"
        with pytest.raises(EditsError, match="would both be /dev/video"):
            backend.edits(inventory, inventory.devices, {}, {})


class TestUsb:
    YUBIKEY = "groups: [{usb: [{vendor: '1050', product: '0x0407'}]}]"

    def test_a_device_is_found_by_its_numbers(self, tmp_path: Path) -> None:
        node = add_usb(tmp_path, "1-1.4", "1050:0407", 12)
        add_usb(tmp_path, "1-2", "046d:c52b", 3)
        (device,) = scan(tmp_path, self.YUBIKEY).devices
        assert (device.id, device.nodes) == ("usb-1050-0407", (DeviceNode(node, node, "rw"),))

    def test_replugging_keeps_the_id(self, tmp_path: Path) -> None:
        before = (add_usb(tmp_path, "1-1.4", "1050:0407", 12), scan(tmp_path, self.YUBIKEY).devices[0].id)
        after = (add_usb(tmp_path, "1-1.4", "1050:0407", 13), scan(tmp_path, self.YUBIKEY).devices[0].id)
        assert before[0] != after[0]
        assert before[1] == after[1]

    def test_a_serial_number_chooses_among_twins(self, tmp_path: Path) -> None:
        add_usb(tmp_path, "1-1", "0403:6001", 5, "A1")
        node = add_usb(tmp_path, "1-2", "0403:6001", 6, "B2")
        text = "groups: [{usb: [{vendor: '0403', product: '6001', serial: B2}]}]"
        (device,) = scan(tmp_path, text).devices
        assert host_paths(device) == [node]

    def test_all_that_match_are_one_device(self, tmp_path: Path) -> None:
        nodes = [add_usb(tmp_path, f"1-{n}", "0403:6001", n) for n in (1, 2)]
        (device,) = scan(tmp_path, "groups: [{usb: [{vendor: '0403', product: '6001'}]}]").devices
        assert host_paths(device) == nodes

    def test_what_is_not_plugged_in_is_named_by_its_numbers(self, tmp_path: Path) -> None:
        (skip,) = scan(tmp_path, self.YUBIKEY).skipped
        assert skip.reason == "no USB device 1050:0407 is plugged in"
        assert (skip.code, skip.unit) == ("no-usb-device", "usb-1050-0407")

    @pytest.mark.parametrize("written", ["1050", "0x1050", "0X1050"])
    def test_numbers_are_hexadecimal_with_or_without_prefix(self, tmp_path: Path, written: str) -> None:
        add_usb(tmp_path, "1-1", "1050:0407", 5)
        assert (
            len(scan(tmp_path, f"groups: [{{usb: [{{vendor: '{written}', product: '407'}}]}}]").devices) == 1
        )

    @pytest.mark.parametrize("name", ["idVendor", "idProduct", "busnum", "devnum"])
    def test_a_damaged_device_is_passed_over(self, tmp_path: Path, name: str) -> None:
        add_usb(tmp_path, "1-1", "1050:0407", 5)
        node = add_usb(tmp_path, "1-2", "1050:0407", 6)
        (tmp_path / "sys/bus/usb/devices/1-1" / name).write_text("?")
        (device,) = scan(tmp_path, self.YUBIKEY).devices
        assert host_paths(device) == [node]


class TestContradictions:
    @pytest.mark.parametrize(
        ("text", "field"),
        [
            ("{}", ()),
            ("groups: [{}]", ("groups", 0)),
            ("paths: [/dev/fuse, '/dev/[x']", ("paths", 1)),
            ("{shares: 5, groups: [{paths: [{path: /dev/fuse}]}]}", ("shares",)),
            ("groups: [{paths: [{path: /dev/../x}]}]", ("groups", 0, "paths", 0, "path")),
            (
                "groups: [{paths: [{path: /x, type: Mount, permissions: r}]}]",
                ("groups", 0, "paths", 0, "permissions"),
            ),
            ("groups: [{paths: [{path: /dev/x, readOnly: true}]}]", ("groups", 0, "paths", 0, "readOnly")),
        ],
    )
    def test_each_is_named_with_its_place(self, text: str, field: tuple[str | int, ...]) -> None:
        (problem,) = settings(text).problems()
        assert problem.field == field

    @pytest.mark.parametrize(
        "text",
        [
            "paths: [dev/fuse]",
            "{paths: [/dev/a], shares: 0}",
            "{paths: [/dev/a], permissions: rx}",
            "path: /x",
        ],
    )
    def test_malformed_fields_are_refused(self, text: str) -> None:
        with pytest.raises(msgspec.ValidationError):
            settings(text)

    @pytest.mark.parametrize(
        ("one", "other", "meet"),
        [
            ("paths: [/dev/fuse]", "paths: [/dev/kvm, /dev/fuse]", True),
            ("paths: [/dev/fuse]", "groups: [{paths: [{path: /dev/f*}]}]", True),
            ("paths: [/dev/kvm]", "groups: [{paths: [{path: /dev/kvm}, {path: /dev/vhost-net}]}]", False),
            (
                "groups: [{usb: [{vendor: '1', product: '2'}]}]",
                "groups: [{usb: [{vendor: '0x0001', product: '02'}]}]",
                True,
            ),
            (
                "groups: [{usb: [{vendor: '1', product: '2', serial: A}]}]",
                "groups: [{usb: [{vendor: '1', product: '2', serial: B}]}]",
                False,
            ),
        ],
    )
    def test_overlap_is_the_same_unit_in_both(self, one: str, other: str, *, meet: bool) -> None:
        assert overlap(settings(one), settings(other)) == meet


EXAMPLE = """
devices:
- name: serial
  groups:
  - paths:
    - path: /dev/ttyUSB*
  - paths:
    - path: /dev/ttyACM*
- name: video
  groups:
  - paths:
    - path: /dev/video0
- name: fuse
  groups:
  - count: 10
    paths:
    - path: /dev/fuse
- name: audio
  groups:
  - count: 10
    paths:
    - path: /dev/snd
- name: capture
  groups:
  - paths:
    - path: /dev/snd/controlC0
    - path: /dev/snd/pcmC0D0c
  - paths:
    - path: /dev/snd/controlC1
      mountPath: /dev/snd/controlC0
    - path: /dev/snd/pcmC1D0c
      mountPath: /dev/snd/pcmC0D0c
"""


def test_a_name_that_is_no_text_is_skipped_and_the_others_are_served(tmp_path: Path) -> None:
    """Neither the kubelet nor a runtime can be told of it: both speak UTF-8."""
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in (b"cam0", b"cam\xff", "camü".encode()):
        (folder / os.fsdecode(name)).touch()
    found = FilesSettings(paths=("/dev/cam*",)).backend().scan(tmp_path)
    assert [device.nodes[0].host_path for device in found.devices] == ["/dev/cam0", "/dev/camü"]
    assert [(one.path, one.code) for one in found.skipped] == [("/dev/cam\\xff", "bad-name")]
