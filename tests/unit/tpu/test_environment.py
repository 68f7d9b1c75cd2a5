"""What containers are told, against literals from GKE's plugin and public notes, for every request size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.fakehost.tpu import HOSTS

EIGHT_PORTS = "8431,8432,8433,8434,8435,8436,8437,8438"
NODE_IP = "127.0.0.1"
NO_WRAP = "false,false,false"


def told(**changes: str | None) -> dict[str, str]:
    """The environment of a single host; None leaves a variable out."""
    values: dict[str, str | None] = {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_TOPOLOGY_WRAP": NO_WRAP,
        "WRAP": NO_WRAP,
        "TPU_TOPOLOGY_ALT": "false",
        "ALT": "false",
        "TPU_HOST_BOUNDS": "1,1,1",
        "HOST_BOUNDS": "1,1,1",
        "TPU_WORKER_ID": "0",
        "TPU_WORKER_HOSTNAMES": "localhost",
    }
    values |= changes
    return {name: value for name, value in values.items() if value is not None}


def bounds(chips: str) -> dict[str, str]:
    return {"TPU_CHIPS_PER_HOST_BOUNDS": chips, "CHIPS_PER_HOST_BOUNDS": chips}


def process(chip_bounds: str, chips: Sequence[int]) -> dict[str, str]:
    """One process with these chips of the host, whose port is its first chip's."""
    return {
        **bounds(chip_bounds),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": chip_bounds,
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_PROCESS_ADDRESSES": f"localhost:{8476 + chips[0]}",
        "TPU_PROCESS_PORT": str(8476 + chips[0]),
        "CLOUD_TPU_TASK_ID": "0",
        "TPU_VISIBLE_CHIPS": ",".join(map(str, range(len(chips)))),
    }


def service(name: str) -> dict[str, str]:
    """Where libtpu finds the host's service, which it needs from v6e on."""
    return {"VBAR_CONTROL_SERVICE_URL": "127.0.0.1:8353"} if name.startswith(("v6e", "tpu7x")) else {}


HOST_SIZES = {name: int(name.partition("-")[2]) if name[-1] in "148" and "-" in name else 4 for name in HOSTS}


def edit(
    root: Path,
    name: str,
    chips: Sequence[int] | None = None,
    labels: Mapping[str, str] | None = None,
    **settings: Any,
) -> ContainerEdits:
    """The edits for chips of a host by their position; all of them where none are named."""
    backend = TpuBackend(TpuSettings(**settings), NodeFacts(labels or {}, ip=NODE_IP))
    inventory = backend.scan(HOSTS[name].write(root))
    given = [inventory.devices[index] for index in chips or range(len(inventory.devices))]
    return backend.edits(inventory, given, {}, {})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v2", {"TPU_TOPOLOGY": "2x2", "TPU_ACCELERATOR_TYPE": "v2-8", "ports": "8431,8432,8433,8434"}),
        ("v3", {"TPU_TOPOLOGY": "2x2", "TPU_ACCELERATOR_TYPE": "v3-8", "ports": "8431,8432,8433,8434"}),
        ("v4", {"TPU_TOPOLOGY": "2x2x1", "TPU_ACCELERATOR_TYPE": "v4-8", "ports": "8431,8432,8433,8434"}),
        (
            "v4-lite",
            {"TPU_TOPOLOGY": "2x2", "TPU_ACCELERATOR_TYPE": "v4lite-4", "ports": "8431,8432,8433,8434"},
        ),
        ("v5e-1", {"TPU_TOPOLOGY": "1x1", "TPU_ACCELERATOR_TYPE": "v5litepod-1", "ports": "8431"}),
        (
            "v5e-4",
            {"TPU_TOPOLOGY": "2x2", "TPU_ACCELERATOR_TYPE": "v5litepod-4", "ports": "8431,8432,8433,8434"},
        ),
        (
            "v5e-8",
            {
                "TPU_TOPOLOGY": "2x4",
                "TPU_ACCELERATOR_TYPE": "v5litepod-8",
                "ports": "8431,8432,8433,8434,8435,8436,8437,8438",
            },
        ),
        ("v5p", {"TPU_TOPOLOGY": "2x2x1", "TPU_ACCELERATOR_TYPE": "v5p-8", "ports": "8431,8432,8433,8434"}),
        ("v6e-1", {"TPU_TOPOLOGY": "1x1", "TPU_ACCELERATOR_TYPE": "v6e-1", "ports": "8431"}),
        ("v6e-4", {"TPU_TOPOLOGY": "2x2", "TPU_ACCELERATOR_TYPE": "v6e-4", "ports": "8431,8432,8433,8434"}),
        (
            "v6e-8",
            {
                "TPU_TOPOLOGY": "2x4",
                "TPU_ACCELERATOR_TYPE": "v6e-8",
                "ports": "8431,8432,8433,8434,8435,8436,8437,8438",
            },
        ),
        ("tpu7x-1", {"TPU_TOPOLOGY": "1x1x1", "TPU_ACCELERATOR_TYPE": "tpu7x-2", "ports": "8431,8432"}),
        (
            "tpu7x-4",
            {
                "TPU_TOPOLOGY": "2x2x1",
                "TPU_ACCELERATOR_TYPE": "tpu7x-8",
                "ports": "8431,8432,8433,8434,8435,8436,8437,8438",
            },
        ),
    ],
)
def test_whole_single_host_of_every_generation(
    tmp_path: Path, name: str, expected: dict[str, str | None]
) -> None:
    chips = {"1": "1,1,1", "8": "2,4,1"}.get(name.partition("-")[2], "2,2,1")
    ports = expected.pop("ports")
    if name == "tpu7x-4":
        expected |= {"WORKLOAD_NIC_PREFERRED_NUMA": "0,1"}

    edits = edit(tmp_path, name)

    assert edits.environment == told(
        TPU_RUNTIME_METRICS_PORTS=ports, **bounds(chips), **service(name), **expected
    )


@pytest.mark.parametrize(
    ("name", "topology", "expected"),
    [
        # Multi-host slices: 4 chips a host, hosts = topology / 2x2.
        ("v6e-4", "4x8", {"type": "v6e-32", "hosts": "2,4,1", "wrap": NO_WRAP}),
        ("v5e-4", "2x4", {"type": "v5litepod-8", "hosts": "1,2,1", "wrap": NO_WRAP}),
        ("v5e-4", "8x16", {"type": "v5litepod-128", "hosts": "4,8,1", "wrap": "false,true,false"}),
        ("v6e-4", "16x16", {"type": "v6e-256", "hosts": "8,8,1", "wrap": "true,true,false"}),
        ("v4", "4x4x4", {"type": "v4-128", "hosts": "2,2,4", "wrap": "true,true,true", "ici": "true"}),
        ("v4", "2x2x4", {"type": "v4-32", "hosts": "1,1,4", "wrap": NO_WRAP}),
        ("v5p", "4x4x8", {"type": "v5p-256", "hosts": "2,2,8", "wrap": "true,true,true", "ici": "true"}),
        ("v5p", "2x4x4", {"type": "v5p-64", "hosts": "1,2,4", "wrap": NO_WRAP}),
        ("v3", "4x4", {"type": "v3-32", "hosts": "2,2,1", "wrap": NO_WRAP}),
    ],
)
def test_whole_host_of_a_multi_host_slice(
    tmp_path: Path, name: str, topology: str, expected: dict[str, str]
) -> None:
    edits = edit(tmp_path, name, topology=topology)

    assert edits.environment == told(
        TPU_RUNTIME_METRICS_PORTS="8431,8432,8433,8434",
        **bounds("2,2,1"),
        **service(name),
        TPU_TOPOLOGY=topology,
        TPU_ACCELERATOR_TYPE=expected["type"],
        TPU_HOST_BOUNDS=expected["hosts"],
        HOST_BOUNDS=expected["hosts"],
        TPU_TOPOLOGY_WRAP=expected["wrap"],
        WRAP=expected["wrap"],
        ENABLE_ICI_RESILIENCY=expected.get("ici"),
        TPU_WORKER_ID=None,
        TPU_WORKER_HOSTNAMES=None,
    )


def test_host_of_a_tpu7x_cube(tmp_path: Path) -> None:
    edits = edit(tmp_path, "tpu7x-4", topology="4x4x4")

    assert edits.environment == told(
        TPU_RUNTIME_METRICS_PORTS="8431,8432,8433,8434,8435,8436,8437,8438",
        **bounds("2,2,1"),
        **service("tpu7x-4"),
        TPU_TOPOLOGY="4x4x4",
        TPU_ACCELERATOR_TYPE="tpu7x-128",
        TPU_HOST_BOUNDS="2,2,4",
        HOST_BOUNDS="2,2,4",
        TPU_TOPOLOGY_WRAP="true,true,true",
        WRAP="true,true,true",
        ENABLE_ICI_RESILIENCY="true",
        WORKLOAD_NIC_PREFERRED_NUMA="0,1",
        TPU_WORKER_ID=None,
        TPU_WORKER_HOSTNAMES=None,
    )


@pytest.mark.parametrize(
    "label", ["cloud.google.com/gke-tpu-ici-resiliency", "tpu.google.com/ici-resiliency"]
)
def test_label_turns_ici_resiliency_off(tmp_path: Path, label: str) -> None:
    edits = edit(tmp_path, "v4", topology="4x4x4", labels={label: "false"})

    assert edits.environment["ENABLE_ICI_RESILIENCY"] == "false"


@pytest.mark.parametrize(
    ("name", "chips", "expected"),
    [
        ("v5e-8", [5], ("1x1", "v5litepod-1", "1,1,1", "8436")),
        ("v5e-8", [2, 3], ("1x2", "v5litepod-2", "1,2,1", "8433,8434")),
        ("v5e-8", [4, 5, 6, 7], ("1x4", "v5litepod-4", "1,4,1", "8435,8436,8437,8438")),
        (
            "v5e-8",
            [0, 1, 2, 3, 4, 5, 6, 7],
            ("2x4", "v5litepod-8", "2,4,1", EIGHT_PORTS),
        ),
        ("v6e-8", [0], ("1x1", "v6e-1", "1,1,1", "8431")),
        ("v6e-8", [6, 7], ("1x2", "v6e-2", "1,2,1", "8437,8438")),
        ("v6e-8", [0, 1, 2, 3], ("1x4", "v6e-4", "1,4,1", "8431,8432,8433,8434")),
        (
            "v6e-8",
            [0, 1, 2, 3, 4, 5, 6, 7],
            ("2x4", "v6e-8", "2,4,1", EIGHT_PORTS),
        ),
        ("v5e-1", [0], ("1x1", "v5litepod-1", "1,1,1", "8431")),
        ("v6e-1", [0], ("1x1", "v6e-1", "1,1,1", "8431")),
        ("v5e-4", [1], ("1x1", "v5litepod-1", "1,1,1", "8432")),
        ("v5e-4", [2, 3], ("1x2", "v5litepod-2", "1,2,1", "8433,8434")),
        ("v5e-4", [0, 1, 2, 3], ("2x2", "v5litepod-4", "2,2,1", "8431,8432,8433,8434")),
        ("v6e-4", [2], ("1x1", "v6e-1", "1,1,1", "8433")),
        ("v6e-4", [0, 1], ("1x2", "v6e-2", "1,2,1", "8431,8432")),
        ("v6e-4", [0, 1, 2, 3], ("2x2", "v6e-4", "2,2,1", "8431,8432,8433,8434")),
        ("v5p", [3], ("1x1x1", "v5p-2", "1,1,1", "8434")),
        ("v5p", [0, 1], ("1x2x1", "v5p-4", "1,2,1", "8431,8432")),
        ("v5p", [0, 1, 2, 3], ("2x2x1", "v5p-8", "2,2,1", "8431,8432,8433,8434")),
        ("v4", [2], ("1x1x1", "v4-2", "1,1,1", "8433")),
        ("v4", [2, 3], ("1x2x1", "v4-4", "1,2,1", "8433,8434")),
        ("v4", [0, 1, 2, 3], ("2x2x1", "v4-8", "2,2,1", "8431,8432,8433,8434")),
        ("v3", [0], ("1x1", "v3-2", "1,1,1", "8431")),
        ("v3", [0, 1], ("1x2", "v3-4", "1,2,1", "8431,8432")),
        ("v3", [0, 1, 2, 3], ("2x2", "v3-8", "2,2,1", "8431,8432,8433,8434")),
        ("v2", [1], ("1x1", "v2-2", "1,1,1", "8432")),
        ("v2", [2, 3], ("1x2", "v2-4", "1,2,1", "8433,8434")),
        ("v2", [0, 1, 2, 3], ("2x2", "v2-8", "2,2,1", "8431,8432,8433,8434")),
        ("v4-lite", [3], ("1x1", "v4lite-1", "1,1,1", "8434")),
        ("v4-lite", [2, 3], ("1x2", "v4lite-2", "1,2,1", "8433,8434")),
        ("v4-lite", [0, 1, 2, 3], ("2x2", "v4lite-4", "2,2,1", "8431,8432,8433,8434")),
        ("tpu7x-4", [1], ("1x1x1", "tpu7x-2", "1,1,1", "8433,8434")),
    ],
)
def test_box_of_a_host_is_a_slice_of_its_own(
    tmp_path: Path, name: str, chips: list[int], expected: tuple[str, str | None, str, str]
) -> None:
    topology, accelerator_type, chip_bounds, ports = expected

    edits = edit(tmp_path, name, chips, mode="sub-host")

    is_whole = len(chips) == HOST_SIZES[name]
    assert edits.environment == told(
        TPU_TOPOLOGY=topology,
        TPU_ACCELERATOR_TYPE=accelerator_type,
        TPU_RUNTIME_METRICS_PORTS=ports,
        **service(name),
        **(bounds(chip_bounds) if is_whole else process(chip_bounds, chips)),
    )


def test_pair_of_tpu7x_chips_names_its_network_cards_numa_node(tmp_path: Path) -> None:
    edits = edit(tmp_path, "tpu7x-4", [2, 3], mode="sub-host")

    assert edits.environment == told(
        TPU_TOPOLOGY="1x2x1",
        TPU_ACCELERATOR_TYPE="tpu7x-4",
        TPU_RUNTIME_METRICS_PORTS="8435,8436,8437,8438",
        WORKLOAD_NIC_PREFERRED_NUMA="1",
        **service("tpu7x-4"),
        **process("1,2,1", [2, 3]),
    )


def test_whole_tpu7x_host_by_parts_is_the_whole(tmp_path: Path) -> None:
    edits = edit(tmp_path, "tpu7x-4", [0, 1, 2, 3], mode="sub-host")

    assert edits.environment == told(
        TPU_TOPOLOGY="2x2x1",
        TPU_ACCELERATOR_TYPE="tpu7x-8",
        TPU_RUNTIME_METRICS_PORTS="8431,8432,8433,8434,8435,8436,8437,8438",
        WORKLOAD_NIC_PREFERRED_NUMA="0,1",
        **service("tpu7x-4"),
        **bounds("2,2,1"),
    )


def test_shape_of_half_a_host_can_be_set(tmp_path: Path) -> None:
    edits = edit(tmp_path, "v6e-8", [0, 1, 2, 3], mode="sub-host", half_bounds="2,2,1")

    assert edits.environment["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "2,2,1"
    assert edits.environment["TPU_CHIPS_PER_HOST_BOUNDS"] == "2,2,1"
    assert edits.environment["TPU_TOPOLOGY"] == "2x2"


@pytest.mark.parametrize(
    ("meaning", "chips", "expected"),
    [
        ("none", [4, 5], None),
        ("container", [4, 5], "0,1"),
        ("ordinal", [4, 5], "4,5"),
        ("device-number", [4, 5], "1,5"),
        ("container", [0, 1, 2, 3, 4, 5, 6, 7], None),
        ("ordinal", [0, 1, 2, 3, 4, 5, 6, 7], None),
    ],
)
def test_visible_chips_are_counted_as_the_settings_say(
    tmp_path: Path, meaning: str, chips: list[int], expected: str | None
) -> None:
    edits = edit(tmp_path, "v5e-8", chips, mode="sub-host", visible_chips=meaning)

    assert edits.environment.get("TPU_VISIBLE_CHIPS") == expected


def test_chips_of_a_lenient_host_that_form_no_box_get_no_bounds(tmp_path: Path) -> None:
    edits = edit(tmp_path, "v5e-8", [1, 2, 5], mode="sub-host", check="lenient")

    assert edits.environment == {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_RUNTIME_METRICS_PORTS": "8432,8433,8436",
        "TPU_VISIBLE_CHIPS": "0,1,2",
    }
    assert [node.host_path for node in edits.nodes] == [
        "/dev/vfio/2",
        "/dev/vfio/4",
        "/dev/vfio/5",
        "/dev/vfio/vfio",
    ]


def test_container_gets_its_files_and_no_others(tmp_path: Path) -> None:
    vfio = edit(tmp_path / "v5e", "v5e-8", [4, 5], mode="sub-host")
    accel = edit(tmp_path / "v4", "v4", [2, 3], mode="sub-host")

    assert [(node.host_path, node.container_path, node.permissions) for node in vfio.nodes] == [
        ("/dev/vfio/1", "/dev/vfio/1", "rw"),
        ("/dev/vfio/5", "/dev/vfio/5", "rw"),
        ("/dev/vfio/vfio", "/dev/vfio/vfio", "rw"),
    ]
    assert [node.host_path for node in accel.nodes] == ["/dev/accel2", "/dev/accel3"]


def test_each_allocation_has_a_log_folder_of_its_own(tmp_path: Path) -> None:
    first = edit(tmp_path / "a", "v5e-8", [0, 1], mode="sub-host")
    other = edit(tmp_path / "b", "v5e-8", [2, 3], mode="sub-host")
    again = edit(tmp_path / "c", "v5e-8", [1, 0], mode="sub-host")

    (mount,) = first.mounts
    assert (mount.container_path, mount.read_only) == ("/tmp/tpu_logs", False)
    assert mount.host_path.startswith("/tmp/tpu_logs/0000-00-0c.0-x2-")
    assert [folder.host_path for folder in first.folders] == [mount.host_path]
    assert other.mounts != first.mounts
    assert again == first


def test_logs_stay_in_the_container_where_no_folder_is_set(tmp_path: Path) -> None:
    edits = edit(tmp_path, "v5e-1", log_folder=None)

    assert edits.mounts == ()
    assert edits.folders == ()
