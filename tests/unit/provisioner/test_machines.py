"""The machines of every topology that is sold, against the table and against Google's words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.tpu.shape import Shape
from accelet.accelerators.tpu.table import GENERATIONS
from accelet.provisioner.pools.machines import Asked, Machines, PlacementPolicy, Refusal, choose_machines

EVERY = [
    (product.label, shape.text(known.dimensions), shape, product, known)
    for known in GENERATIONS
    for product in known.products
    for shape in product.topologies()
]


def _ask(accelerator: str, topology: str, chips: int, pods: int, **more: str) -> Machines | Refusal:
    return choose_machines(Asked(accelerator, topology, chips, pods, **more))


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips", "pods", "hosts", "machine", "placement"),
    [
        ("tpu-v3-slice", "4x4", 4, 4, 4, "ct3p-hightpu-4t", PlacementPolicy.COMPACT),
        ("tpu-v3-device", "2x2", 4, 1, 1, "ct3-hightpu-4t", PlacementPolicy.NONE),
        ("tpu-v4-podslice", "2x2x1", 4, 1, 1, "ct4p-hightpu-4t", PlacementPolicy.NONE),
        ("tpu-v4-podslice", "2x2x2", 4, 2, 2, "ct4p-hightpu-4t", PlacementPolicy.COMPACT),
        ("tpu-v4-podslice", "12x16x16", 4, 768, 768, "ct4p-hightpu-4t", PlacementPolicy.COMPACT),
        ("tpu-v5-lite-device", "2x4", 8, 1, 1, "ct5l-hightpu-8t", PlacementPolicy.NONE),
        ("tpu-v5-lite-podslice", "2x4", 8, 1, 1, "ct5lp-hightpu-8t", PlacementPolicy.NONE),
        ("tpu-v5-lite-podslice", "2x4", 4, 2, 2, "ct5lp-hightpu-4t", PlacementPolicy.COMPACT),
        ("tpu-v5-lite-podslice", "1x1", 1, 1, 1, "ct5lp-hightpu-1t", PlacementPolicy.NONE),
        ("tpu-v5p-slice", "16x16x24", 4, 1536, 1536, "ct5p-hightpu-4t", PlacementPolicy.COMPACT),
        ("tpu-v6e-slice", "4x8", 4, 8, 8, "ct6e-standard-4t", PlacementPolicy.COMPACT),
        ("tpu-v6e-slice", "16x16", 4, 64, 64, "ct6e-standard-4t", PlacementPolicy.COMPACT),
        ("tpu7x", "2x2x1", 4, 1, 1, "tpu7x-standard-4t", PlacementPolicy.NONE),
        ("tpu7x", "2x2x1", 1, 4, 1, "tpu7x-standard-4t", PlacementPolicy.NONE),
        ("tpu7x", "1x1x1", 1, 1, 1, "tpu7x-standard-1t", PlacementPolicy.NONE),
        ("tpu7x", "2x2x2", 4, 2, 2, "tpu7x-standard-4t", PlacementPolicy.WORKLOAD_POLICY),
        ("tpu7x", "2x2x2", 2, 4, 2, "tpu7x-standard-4t", PlacementPolicy.WORKLOAD_POLICY),
    ],
)
def test_a_topology_takes_its_machines(
    *,
    accelerator: str,
    topology: str,
    chips: int,
    pods: int,
    hosts: int,
    machine: str,
    placement: PlacementPolicy,
) -> None:
    found = _ask(accelerator, topology, chips, pods)

    assert isinstance(found, Machines)
    assert (found.hosts, found.machine_type, found.placement) == (hosts, machine, placement)


def test_every_topology_that_is_sold_is_made_of_whole_machines() -> None:
    for label, text, shape, product, _ in EVERY:
        made = [
            found
            for machine in product.machines
            for found in [_ask(label, text, machine.chips, shape.chips // machine.chips or 1)]
            if isinstance(found, Machines)
        ]
        assert made, f"{label} {text}"
        for found in made:
            assert found.hosts * found.chips_per_host == shape.chips
            assert found.machine_type in {m.name for m in product.machines if m.chips == found.chips_per_host}
            assert (found.placement is PlacementPolicy.NONE) == (found.hosts == 1)


@given(
    st.sampled_from(sorted({row[0] for row in EVERY})),
    st.tuples(*[st.integers(0, 40)] * 3),
    st.sampled_from((2, 3)),
    st.integers(-1, 9),
    st.integers(0, 70),
)
def test_whatever_is_made_is_in_the_table_and_whatever_is_not_has_a_reason(
    label: str, dims: tuple[int, int, int], dimensions: int, chips: int, pods: int
) -> None:
    text = "x".join(map(str, dims[:dimensions]))
    found = _ask(label, text, chips, pods)

    if isinstance(found, Refusal):
        assert 10 < len(found.reason) < 400
        return
    rows = {(row[0], row[1]): row[2] for row in EVERY}
    assert rows[label, text].chips == found.chips == pods * chips


def test_the_tables_own_topologies_are_the_only_ones() -> None:
    sold = {(label, text) for label, text, *_ in EVERY}
    for label in {label for label, _ in sold}:
        for x in range(1, 9):
            for y in range(1, 9):
                text = Shape(x, y).text(2)
                made = [
                    _ask(label, text, chips, pods)
                    for chips in (1, 2, 4, 8)
                    for pods in {max(1, x * y // chips)}
                ]
                assert any(isinstance(one, Machines) for one in made) == ((label, text) in sold)


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips", "pods", "reason"),
    [
        ("tpu-v6e-slice", "4x4", 4, 2, "4x4 with 4 chips a pod needs 4 pods, the Job has 2"),
        ("tpu-v6e-slice", "2x4", 8, 2, "2x4 with 8 chips a pod needs 1 pod, the Job has 2"),
        ("tpu-v6e-slice", "5x5", 4, 6, "no topology '5x5'; the nearest are 4x8 and 4x4"),
        ("tpu-v6e-slice", "8x4", 4, 8, "no topology '8x4'; the nearest is 4x8"),
        ("tpu-v6e-slice", "4x4x1", 4, 4, "no topology '4x4x1'; the nearest is 4x4"),
        ("tpu-v4-podslice", "2x2", 4, 1, "no topology '2x2'; the nearest is 2x2x1"),
        ("tpu-v4-podslice", "4xq", 4, 1, "no topology '4xq'; the nearest are 2x2x1 and 2x2x2 and 2x2x4"),
        ("tpu-v6e-slise", "4x4", 4, 4, "'tpu-v6e-slise' is no TPU .* the nearest is tpu-v6e-slice"),
        ("tpu-v7x-lite-podslice", "4x4", 4, 4, "the nearest is tpu7x$"),
        ("tpu-v7-slice", "4x4", 4, 4, "the nearest is tpu7x$"),
        ("tpu-v5e-slice", "4x4", 4, 4, "the nearest is tpu-v5-lite-podslice$"),
        ("tpu-v5p-podslice", "4x4", 4, 4, "the nearest is tpu-v5p-slice$"),
        ("tpu-v5-lite", "4x4", 4, 4, "the nearest is tpu-v5-lite-"),
        ("v6e", "4x4", 4, 4, "the nearest is tpu-v6e-slice$"),
        ("tpu-v9-slice", "4x4", 4, 4, "known are tpu-v3-device, .*, tpu7x$"),
        ("tpu-slice", "4x4", 4, 4, "the nearest is tpu-v"),
        ("nvidia-l4", "4x4", 4, 4, "'nvidia-l4' is no TPU .* known are tpu-v3-device"),
        ("tpu-v6e-slice", "4x4", 16, 1, "has machines of 4 chips; a pod must ask for all .*, not for 16"),
        ("tpu-v6e-slice", "2x4", 2, 4, "has machines of 4 or 8 chips; .* not for 2"),
        ("tpu-v5-lite-device", "2x4", 4, 2, "has machines of 8 chips; .* not for 4"),
        ("tpu7x", "2x2x2", 3, 3, "has machines of 4 chips; .* not for 3"),
        ("tpu-v6e-slice", "0x4", 4, 1, "no topology '0x4'"),
        ("tpu-v6e-slice", "-1x4", 4, 1, "no topology '-1x4'"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(
    *, accelerator: str, topology: str, chips: int, pods: int, reason: str
) -> None:
    found = _ask(accelerator, topology, chips, pods)

    assert isinstance(found, Refusal)
    assert re.search(reason, found.reason), found.reason


def test_a_machine_type_is_chosen_among_those_of_the_size() -> None:
    ultranet = _ask("tpu7x", "2x2x2", 4, 2, machine_type="tpu7x-ultranet-4t")
    wrong = _ask("tpu-v6e-slice", "4x4", 4, 4, machine_type="ct6e-standard-8t")

    assert isinstance(ultranet, Machines)
    assert ultranet.machine_type == "tpu7x-ultranet-4t"
    assert wrong == Refusal(
        "tpu-v6e-slice 4x4 with 4 chips a machine is made of ct6e-standard-4t, not of 'ct6e-standard-8t'"
    )


def test_links_are_routed_around_only_where_the_hardware_can() -> None:
    assert isinstance(_ask("tpu-v5p-slice", "4x4x4", 4, 16, ici_resiliency="true"), Machines)
    assert isinstance(_ask("tpu-v6e-slice", "4x4", 4, 4, ici_resiliency="false"), Machines)
    assert _ask("tpu-v5p-slice", "2x2x2", 4, 2, ici_resiliency="true") == Refusal(
        "ICI resiliency is for slices from 4x4x4 on of v4, v5p and tpu7x, not for tpu-v5p-slice 2x2x2: "
        "leave cloud.google.com/gke-tpu-ici-resiliency out"
    )
    assert isinstance(_ask("tpu-v5p-slice", "4x4x4", 4, 16, ici_resiliency="maybe"), Refusal)
