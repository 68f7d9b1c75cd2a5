"""Chips that vanish make no smaller host, also after a restart; where it cannot be told, nothing is given."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.backend import EditsError
from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.seenhost import SeenHost, remember_host
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.accelerators.tpu.table import GENERATIONS, V5E
from accelet.fakehost.tpu import HOSTS, TpuHost

FIRST_HALF = ("0000:00:0c.0", "0000:00:0d.0", "0000:00:0e.0", "0000:00:0f.0")
SECOND_HALF = ("0000:80:00.0", "0000:80:01.0", "0000:80:02.0", "0000:80:03.0")


def scan(root: Path, host: TpuHost, seen: str | None = None, **settings: object) -> Inventory:
    return backend(seen, **settings).scan(host.write(root))


def backend(seen: str | None = None, **settings: object) -> TpuBackend:
    return TpuBackend(TpuSettings(**settings), NodeFacts(remembered=seen))  # type: ignore[arg-type]


@pytest.mark.parametrize("gone", [FIRST_HALF, SECOND_HALF, (*FIRST_HALF, *SECOND_HALF[1:])])
def test_host_that_lost_four_or_seven_of_eight_chips_is_no_smaller_host(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    seen = scan(tmp_path / "before", HOSTS["v5e-8"]).remember

    inventory = scan(tmp_path / "after", HOSTS["v5e-8"].without(*gone), seen)

    left = 8 - len(gone)
    assert (inventory.host_shape, inventory.missing) == ("2x4", len(gone))
    assert inventory.remember == seen
    assert inventory.warnings == (
        (
            f"{left} of 8 chips were found: the others do not appear on the PCI bus. "
            "A container gets what can still be used together"
        ),
    )
    with pytest.raises(EditsError, match=f"only {left} of its 8 are there"):
        backend(seen).edits(inventory, inventory.devices, {}, {})


def test_four_chips_on_two_numa_nodes_are_no_host_of_four(tmp_path: Path) -> None:
    host = HOSTS["v5e-8"].without(*FIRST_HALF[:2], *SECOND_HALF[:2])

    inventory = scan(tmp_path, host)

    assert inventory.host_shape == "2x4"
    with pytest.raises(EditsError, match="only 4 of its 8 are there"):
        backend().edits(inventory, inventory.devices, {}, {})


def test_four_chips_on_two_numa_nodes_are_no_host_of_four_whatever_a_label_says(tmp_path: Path) -> None:
    host = HOSTS["v5e-8"].without(*FIRST_HALF[:2], *SECOND_HALF[:2])
    labels = {"tpu.google.com/chip-count": "4"}

    inventory = TpuBackend(TpuSettings(), NodeFacts(labels)).scan(host.write(tmp_path))

    assert inventory.host_shape == "2x4"
    assert inventory.warnings[0] == (
        "a label of the Node gives this host 4 chips, and those found are on 2 NUMA nodes, as on a host of 8"
    )


def test_host_of_four_chips_stays_one(tmp_path: Path) -> None:
    inventory = scan(tmp_path, HOSTS["v5e-4"])

    assert (inventory.host_shape, inventory.missing, inventory.warnings) == ("2x2", 0, ())


def test_places_of_chips_are_known_where_all_were_seen_once(tmp_path: Path) -> None:
    seen = scan(tmp_path / "before", HOSTS["v5e-8"]).remember
    parts = backend(seen, mode="sub-host")

    inventory = parts.scan(HOSTS["v5e-8"].without(FIRST_HALF[0], *SECOND_HALF[2:]).write(tmp_path / "after"))

    pairs = parts.valid_sets(inventory, 2)
    assert pairs is not None
    assert sorted(map(sorted, pairs)) == [
        ["0000-00-0e.0", "0000-00-0f.0"],
        ["0000-80-00.0", "0000-80-01.0"],
    ]
    last = [device for device in inventory.devices if device.id == "0000-80-01.0"]
    told = parts.edits(inventory, last, {}, {}).environment
    assert (told["TPU_RUNTIME_METRICS_PORTS"], told["TPU_PROCESS_PORT"]) == ("8436", "8481")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sets(st.sampled_from(FIRST_HALF + SECOND_HALF), max_size=6), min_size=2, max_size=3))
def test_no_two_chips_get_one_port_though_the_host_was_never_seen_complete(looks: list[set[str]]) -> None:
    """A chip that left does not give its number to another, as long as no other appears before it."""
    seen, ports = None, dict[str, str]()
    gone: set[str] = {FIRST_HALF[1]}
    for look in looks:
        gone |= look
        with tempfile.TemporaryDirectory() as folder:
            parts = backend(seen, mode="sub-host", check="lenient")
            inventory = parts.scan(HOSTS["v5e-8"].without(*gone).write(Path(folder)))
            seen = inventory.remember
        for device in inventory.devices:
            told = parts.edits(inventory, [device], {}, {}).environment["TPU_RUNTIME_METRICS_PORTS"]
            assert ports.setdefault(device.id, told) == told
    assert len(set(ports.values())) == len(ports)


def test_label_that_counts_what_is_left_does_not_shrink_a_host(tmp_path: Path) -> None:
    seen = scan(tmp_path / "before", HOSTS["v5e-8"]).remember
    node = NodeFacts({"tpu.google.com/chip-count": "4"}, remembered=seen)
    host = HOSTS["v5e-8"].without(*SECOND_HALF)

    inventory = TpuBackend(TpuSettings(), node).scan(host.write(tmp_path / "after"))

    assert inventory.host_shape == "2x4"
    assert inventory.warnings[0] == "a label of the Node gives this host 4 chips, 8 were seen here before"


def test_other_chips_of_the_same_node_are_another_machine(tmp_path: Path) -> None:
    seen = scan(tmp_path / "before", HOSTS["v5e-8"]).remember

    inventory = scan(tmp_path / "after", HOSTS["v5e-4"], seen)

    assert (inventory.host_shape, inventory.warnings) == ("2x2", ())
    assert inventory.remember is not None
    assert inventory.remember.count("0000") == 4


def test_halves_seen_one_after_the_other_make_the_host(tmp_path: Path) -> None:
    first = scan(tmp_path / "first", HOSTS["v5e-8"].without(*SECOND_HALF)).remember

    inventory = scan(tmp_path / "second", HOSTS["v5e-8"].without(*FIRST_HALF), first)

    assert (inventory.host_shape, inventory.missing) == ("2x4", 4)


@given(st.text() | st.none())
def test_whatever_was_remembered_is_read(text: str | None) -> None:
    seen = SeenHost.parse(text)

    assert seen is None or seen.text() == text


ids = st.sets(st.sampled_from([DeviceId(f"0000-00-{slot:02x}.0") for slot in range(10)]))


@given(st.sampled_from(GENERATIONS), st.lists(ids, min_size=1, max_size=6))
def test_what_is_remembered_can_be_read_and_never_has_less_than_what_is_there(
    generation: Generation, scans: list[set[DeviceId]]
) -> None:
    seen: SeenHost | None = None
    for found in scans:
        seen = remember_host(seen, generation, found)
        assert seen is None or SeenHost.parse(seen.text()) == seen
        assert found <= set(() if seen is None else seen.chips)


@given(ids.filter(bool), st.lists(ids, max_size=6))
def test_chips_that_only_vanish_are_never_forgotten(
    all_chips: set[DeviceId], kept: list[set[DeviceId]]
) -> None:
    first = seen = remember_host(None, V5E, all_chips)
    for left in kept:
        seen = remember_host(seen, V5E, all_chips & left)
    assert seen == first
