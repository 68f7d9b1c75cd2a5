"""What the settings, the TPU VM and the labels say of a host, and what is made of it where they disagree."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.errors import EditsError
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.hostslice import FoundChips, decide
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.accelerators.tpu.shape import Shape
from accelet.accelerators.tpu.statements import Statement, statements_of_labels, statements_of_tpu_env
from accelet.accelerators.tpu.table import GENERATIONS, V4, V5E
from accelet.fakehost.tpu import HOSTS

GKE = "cloud.google.com/gke-tpu-"
MULTI_HOST_ENV = """ACCELERATOR_TYPE: 'v6e-32'
AGENT_BOOTSTRAP_IMAGE: 'gcr.io/some/image:stable'
ALT: 'false'
CHIPS_PER_HOST_BOUNDS: '2,2,1'
COLLECTD_DOCKER_URL: ''
HOST_BOUNDS: '2,4,1'
TOPOLOGY: '4x8'
WORKER_ID: '3'
WRAP: 'false,false,false'
"""


def scan(
    root: Path, name: str, labels: Mapping[str, str] | None = None, topology: str | None = None, env: str = ""
) -> Inventory:
    host = HOSTS[name].with_files({"etc/tpu/tpu-env": env} if env else {})
    backend = TpuBackend(TpuSettings(topology=topology, control_service="none"), NodeFacts(labels or {}))
    return backend.scan(host.write(root))


def test_tpu_vm_says_which_slice_a_host_belongs_to(tmp_path: Path) -> None:
    inventory = scan(tmp_path, "v6e-4", env=MULTI_HOST_ENV)

    assert (inventory.host_shape, inventory.slice_shape) == ("2x2", "4x8")
    assert inventory.warnings == ()


@pytest.mark.parametrize("prefix", [GKE, "tpu.google.com/"])
def test_labels_say_which_slice_a_host_belongs_to(tmp_path: Path, prefix: str) -> None:
    labels = {f"{prefix}accelerator": "tpu-v4-podslice", f"{prefix}topology": "2x2x4"}

    inventory = scan(tmp_path, "v4", labels)

    assert (inventory.host_shape, inventory.slice_shape) == ("2x2x1", "2x2x4")
    assert inventory.warnings == ()


def test_settings_go_before_the_tpu_vm_and_that_before_labels(tmp_path: Path) -> None:
    labels = {f"{GKE}topology": "16x16"}

    inventory = scan(tmp_path / "a", "v6e-4", labels, topology="4x4", env=MULTI_HOST_ENV)
    without_setting = scan(tmp_path / "b", "v6e-4", labels, env=MULTI_HOST_ENV)

    assert inventory.slice_shape == "4x4"
    assert inventory.warnings == (
        "/etc/tpu/tpu-env gives the topology 4x8, another source 4x4: 4x4 is used",
        "a label of the Node gives the topology 16x16, another source 4x4: 4x4 is used",
    )
    assert without_setting.slice_shape == "4x8"


@pytest.mark.parametrize(
    ("name", "env", "slice_shape"),
    [
        ("v3", "ACCELERATOR_TYPE: 'v3-32'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nHOST_BOUNDS: '2,2,1'\n", "4x4"),
        ("v3", "HOST_BOUNDS: '2,2,1'\n", "4x4"),
        ("v3", "ACCELERATOR_TYPE: 'v3-32'\n", "4x4"),
        ("v3", "ACCELERATOR_TYPE: 'v3-8'\n", "2x2"),
        ("v2", "ACCELERATOR_TYPE: 'v2-32'\nHOST_BOUNDS: '2,2,1'\n", "4x4"),
        ("v5e-4", "ACCELERATOR_TYPE: 'v5litepod-8'\n", "2x4"),
        ("v5e-8", "ACCELERATOR_TYPE: 'v5litepod-8'\n", "2x4"),
        ("v4", "ACCELERATOR_TYPE: 'v4-32'\n", "2x2x4"),
        ("v6e-4", "TPU_ACCELERATOR_TYPE: 'v6e-64'\nTPU_HOST_BOUNDS: '4,4,1'\n", "8x8"),
    ],
)
def test_slice_is_told_by_bounds_and_accelerator_type_where_no_topology_is(
    tmp_path: Path, name: str, env: str, slice_shape: str
) -> None:
    inventory = scan(tmp_path, name, env=env)

    assert (inventory.slice_shape, inventory.warnings) == (slice_shape, ())


@pytest.mark.parametrize(
    ("name", "env", "why"),
    [
        (
            "v2",
            "ACCELERATOR_TYPE: 'v2-32'\n",
            "/etc/tpu/tpu-env gives the slice 16 chips, which can be no known shape",
        ),
        (
            "v6e-4",
            "ACCELERATOR_TYPE: 'v6e-32'\nTOPOLOGY: '4x4'\n",
            "/etc/tpu/tpu-env gives the topology 4x4, and an accelerator type of 32 chips: neither is used",
        ),
    ],
)
def test_member_of_a_slice_that_nobody_can_name_is_told_nothing_and_not_split(
    tmp_path: Path, name: str, env: str, why: str
) -> None:
    backend = TpuBackend(TpuSettings(mode="sub-host", control_service="none"))
    inventory = backend.scan(HOSTS[name].with_files({"etc/tpu/tpu-env": env}).write(tmp_path))

    assert (inventory.host_shape, inventory.slice_shape) == ("2x2", None)
    assert inventory.warnings == (
        why,
        (
            "of which slice this host is a part is not known: containers are told nothing of it. "
            "Say so with the setting topology"
        ),
        "mode: sub-host has no effect: this host is a part of a larger slice whose shape is not known",
    )
    told = backend.edits(inventory, inventory.devices, {}, {}).environment
    assert dict(told) == {"TPU_RUNTIME_METRICS_PORTS": "8431,8432,8433,8434"}
    with pytest.raises(EditsError, match="one host of a larger slice whose shape is not known"):
        backend.edits(inventory, inventory.devices[:1], {}, {})


@pytest.mark.parametrize(
    "labels",
    [
        {f"{GKE}accelerator": "tpu-v4-podslice", f"{GKE}topology": "4x8"},
        {"cloud.google.com/gke-accelerator-count": "4", f"{GKE}topology": "4x8"},
    ],
)
def test_topology_of_a_source_that_contradicts_the_chips_is_not_used(
    tmp_path: Path, labels: Mapping[str, str]
) -> None:
    inventory = scan(tmp_path, "v5e-8", labels)

    assert inventory.slice_shape == "2x4"
    assert len(inventory.warnings) == 1


def test_two_by_four_is_one_host_of_eight_or_two_of_four(tmp_path: Path) -> None:
    labels = {f"{GKE}topology": "2x4"}

    assert scan(tmp_path / "8", "v5e-8", labels).host_shape == "2x4"
    assert scan(tmp_path / "4", "v5e-4", labels).host_shape == "2x2"


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        (
            {f"{GKE}topology": "2x2"},
            (
                "a label of the Node gives the topology 2x2, "
                "which hosts of 8 chips (2x4) cannot form: it is not used"
            ),
        ),
        (
            {"cloud.google.com/gke-accelerator-count": "4"},
            "a label of the Node gives this host 4 chips, 8 were found",
        ),
        (
            {"node.kubernetes.io/instance-type": "ct5lp-hightpu-4t"},
            "the machine type ct5lp-hightpu-4t gives this host 4 chips, 8 were found",
        ),
        (
            {f"{GKE}accelerator": "tpu-v6e-slice"},
            (
                "a label of the Node names v6e TPUs, the chips found are v5e: they are served as what they "
                "are, and nothing else it says is used"
            ),
        ),
        ({f"{GKE}accelerator": "tpu9x"}, "a label of the Node: the accelerator 'tpu9x' is not known"),
        (
            {f"{GKE}topology": "wide"},
            "a label of the Node: 'wide' is not a shape of chips such as 2x4 or 2x2x4",
        ),
        (
            {"tpu.google.com/chip-count": "many"},
            "a label of the Node: 'many' is not a number of chips",
        ),
        (
            {f"{GKE}topology": "6x8"},
            "a label of the Node gives the topology 6x8, which is not known for v5e: it is used as it stands",
        ),
    ],
)
def test_disagreement_is_a_warning_and_the_chips_stay(
    tmp_path: Path, labels: Mapping[str, str], warning: str
) -> None:
    inventory = scan(tmp_path, "v5e-8", labels)

    assert inventory.warnings == (warning,)
    assert len(inventory.devices) == 8
    assert all(device.health.is_healthy for device in inventory.devices)
    assert inventory.host_shape == "2x4"


def test_sources_that_count_differently_are_a_warning() -> None:
    statements = [Statement("one", chips=8), Statement("other", chips=4)]

    topology = decide(V5E, FoundChips(4), statements)

    assert topology.host_shape == Shape(2, 4)
    assert topology.warnings[0] == "other gives this host 4 chips, another source 8: 8 it is"


def test_machine_type_tells_that_chips_are_missing(tmp_path: Path) -> None:
    inventory = scan(tmp_path, "v5e-4", {"node.kubernetes.io/instance-type": "ct5lp-hightpu-8t"})

    assert inventory.host_shape == "2x4"
    assert inventory.warnings == (
        (
            "4 of 8 chips were found: the others do not appear on the PCI bus. "
            "A container gets what can still be used together"
        ),
    )


def test_more_chips_than_any_host_has_are_served_without_bounds() -> None:
    topology = decide(V4, FoundChips(5), [])

    assert (topology.host_shape, topology.slice_shape) == (None, None)
    assert topology.warnings == ("5 chips were found, more than any v4 host has: no bounds are set",)


def test_tpu_env_is_read_in_every_quoting() -> None:
    text = "TOPOLOGY: \"4x4\"\n  CHIPS_PER_HOST_BOUNDS: 2,2,1\nnot a line\nACCELERATOR_TYPE: ''\n"

    assert statements_of_tpu_env(text).statements == (Statement("/etc/tpu/tpu-env", None, Shape(4, 4), 4),)


@given(st.text())
def test_no_text_of_a_tpu_env_is_an_error(text: str) -> None:
    statements_of_tpu_env(text)


@given(
    st.dictionaries(
        st.sampled_from([f"{GKE}accelerator", f"{GKE}topology", "tpu.google.com/chip-count"]), st.text()
    )
)
def test_no_label_is_an_error(labels: dict[str, str]) -> None:
    statements_of_labels(labels)


shapes = st.builds(Shape, *[st.integers(1, 24)] * 3)
statements = st.builds(
    Statement,
    st.just("a source"),
    st.none() | st.sampled_from(GENERATIONS),
    st.none() | shapes,
    st.none() | st.integers(1, 99),
)


@given(
    st.sampled_from(GENERATIONS),
    st.integers(1, 16),
    st.integers(0, 16),
    st.integers(0, 3),
    st.lists(statements, max_size=4),
)
def test_whatever_is_said_a_host_holds_its_chips_and_fills_its_slice(
    generation: Generation, found: int, seen: int, numa_nodes: int, said: list[Statement]
) -> None:
    topology = decide(generation, FoundChips(found, seen, numa_nodes), said)

    if topology.host_shape is None:
        assert topology.slice_shape is None
        assert topology.warnings
    else:
        assert topology.host_shape.chips >= found
        assert topology.slice_shape is not None
        assert topology.slice_shape.divided_by(topology.host_shape) is not None
        assert topology.host_shape.chips == found or topology.warnings
