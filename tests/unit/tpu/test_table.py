"""The table against what the sources say, written down here a second time."""

import pytest

from accelet.accelerators.tpu.generation import DeviceFiles, Machine
from accelet.accelerators.tpu.shape import Shape, ShapeError
from accelet.accelerators.tpu.table import (
    GENERATIONS,
    V3,
    V4,
    V5E,
    V5P,
    V6E,
    generation_named,
    generation_of,
    machine_named,
)

GIB = 1024**3


@pytest.mark.parametrize(
    ("device", "subsystem", "name", "files", "cores", "hosts", "memory_gib"),
    [
        ("0x0027", "0x004e", "v2", DeviceFiles.ACCEL, 2, (4,), 16),
        ("0x0027", "0x004f", "v3", DeviceFiles.ACCEL, 2, (4,), 32),
        ("0x005e", None, "v4", DeviceFiles.ACCEL, 2, (4,), 32),
        ("0x0056", None, "v4-lite", DeviceFiles.ACCEL, 1, (4,), None),
        ("0x0063", "0x1234", "v5e", DeviceFiles.VFIO, 1, (1, 4, 8), 16),
        ("0x0062", None, "v5p", DeviceFiles.VFIO, 2, (4,), 95),
        ("0x006f", None, "v6e", DeviceFiles.VFIO, 1, (1, 4, 8), 32),
        ("0x0076", None, "tpu7x", DeviceFiles.VFIO, 2, (1, 4), 192),
    ],
)
def test_generation_is_known_by_its_pci_ids(
    *,
    device: str,
    subsystem: str | None,
    name: str,
    files: DeviceFiles,
    cores: int,
    hosts: tuple[int, ...],
    memory_gib: int | None,
) -> None:
    found = generation_of(device, subsystem)

    assert found is not None
    assert (found.name, found.files, found.cores_per_chip, found.chips_per_host) == (
        name,
        files,
        cores,
        hosts,
    )
    assert found.memory_bytes == (None if memory_gib is None else memory_gib * GIB)
    assert found.functions_per_chip == (2 if name == "tpu7x" else 1)


@pytest.mark.parametrize(("device", "subsystem"), [("0x0027", None), ("0x0027", "0x0001"), ("0x0042", None)])
def test_other_ids_are_no_generation(device: str, subsystem: str | None) -> None:
    assert generation_of(device, subsystem) is None


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("tpu-v3-device", "v3"),
        ("tpu-v3-slice", "v3"),
        ("tpu-v4-lite-device", "v4-lite"),
        ("tpu-v4-podslice", "v4"),
        ("tpu-v5-lite-device", "v5e"),
        ("tpu-v5-lite-podslice", "v5e"),
        ("tpu-v5p-slice", "v5p"),
        ("tpu-v6e-slice", "v6e"),
        ("tpu7x", "tpu7x"),
        ("v5litepod-16", "v5e"),
        ("v4-256", "v4"),
        ("tpu7x-8", "tpu7x"),
        ("v2-8", "v2"),
    ],
)
def test_generation_is_known_by_label_and_accelerator_type(label: str, name: str) -> None:
    found = generation_named(label)

    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("label", ["", "tpu9x", "tpu8i", "v5litepod", "nvidia-l4", "tpu-v4-device"])
def test_unknown_names_are_no_generation(label: str) -> None:
    assert generation_named(label) is None


@pytest.mark.parametrize(
    ("machine", "chips"),
    [
        ("ct3-hightpu-4t", 4),
        ("ct3p-hightpu-4t", 4),
        ("ct4l-hightpu-4t", 4),
        ("ct4p-hightpu-4t", 4),
        ("ct5l-hightpu-1t", 1),
        ("ct5l-hightpu-8t", 8),
        ("ct5lp-hightpu-1t", 1),
        ("ct5lp-hightpu-4t", 4),
        ("ct5lp-hightpu-8t", 8),
        ("ct5p-hightpu-4t", 4),
        ("ct6e-standard-1t", 1),
        ("ct6e-standard-4t", 4),
        ("ct6e-standard-8t", 8),
        ("tpu7x-standard-1t", 1),
        ("tpu7x-standard-4t", 4),
        ("tpu7x-ultranet-4t", 4),
    ],
)
def test_machine_types_have_their_chips(machine: str, chips: int) -> None:
    assert machine_named(machine) == Machine(machine, chips)


def test_topologies_that_are_sold() -> None:
    lite = ["1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"]

    assert [shape.text(2) for shape in V5E.topologies()] == lite
    assert [shape.text(2) for shape in V6E.topologies()] == lite
    assert [shape.text(2) for shape in V3.topologies()][:3] == ["2x2", "4x4", "4x8"]
    assert V3.topologies()[-1] == Shape(32, 64)
    v4 = [shape.text(3) for shape in V4.topologies()]
    assert v4[:6] == ["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"]
    assert v4[-1] == "12x16x16"
    assert "8x4x4" not in v4
    assert V5P.topologies()[-1] == Shape(16, 16, 24)


def test_every_host_shape_is_one_of_the_known_three() -> None:
    shapes = {
        (known.name, count): known.host_shape(count).dims  # type: ignore[union-attr]  # None fails the test
        for known in GENERATIONS
        for count in known.chips_per_host
    }

    assert {count: dims for (_, count), dims in shapes.items()} == {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
    assert all(known.host_shape(3) is None for known in GENERATIONS)


@pytest.mark.parametrize("text", ["2x4", "2x4x1", "2,4,1", "2,4"])
def test_shape_is_read_as_topology_and_as_bounds(text: str) -> None:
    assert Shape.parse(text) == Shape(2, 4)


@pytest.mark.parametrize("text", ["", "x", "2x", "0x2", "2x2x2x2", "2,4x1", "-1x2", "two", "99999x1", "2 x4"])
def test_text_that_is_no_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ShapeError, match="is not a shape of chips such as 2x4 or 2x2x4"):
        Shape.parse(text)
