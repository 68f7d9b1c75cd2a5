import json
from pathlib import Path

import msgspec
import pytest

from accelet.accelerators.device import Device, TileLink
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.errors import ScanError
from accelet.accelerators.settings import overlap
from accelet.accelerators.simulated import SimulatedSettings

NODE = """
cards:
- pci: 0000:03:00.0
  driver: xe
  device_id: 0x0bd5
  tiles: 2
  memory_mib: 65536
  numa_node: 1
  nodes:
  - {path: /dev/null, mount_path: /dev/dri/renderD128}
- pci: 0000-9a-00.0
  unhealthy: it smells of smoke
  nodes: [{path: /dev/zero, permissions: r}]
"""


def devices_of(file: Path, **fields: object) -> tuple[Device, ...]:
    settings = msgspec.convert({"file": str(file), **fields}, SimulatedSettings)
    assert settings.problems() == ()
    return settings.backend().scan(Path("/nowhere")).devices


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "node.yaml").write_text(NODE)
    return tmp_path / "node.yaml"


def test_a_file_describes_cards_whole(file: Path) -> None:
    first, second = devices_of(file)
    assert (first.id, first.pci, first.driver, first.pci_device) == (
        "0000-03-00.0",
        "0000:03:00.0",
        "xe",
        "0x0bd5",
    )
    assert (first.tile_count, first.memory_bytes, first.numa_nodes) == (2, 2**36, (1,))
    assert first.nodes == (DeviceNode("/dev/null", "/dev/dri/renderD128", "rw"),)
    assert second.nodes == (DeviceNode("/dev/zero", "/dev/zero", "r"),)
    assert (first.health.reason, second.health.reason) == (None, "it smells of smoke")


def test_health_follows_the_file_and_back(file: Path) -> None:
    sick = NODE.replace("  tiles: 2", "  tiles: 2\n  unhealthy: too hot")
    states = []
    for text in (NODE, sick, NODE):
        file.write_text(text)
        states.append(devices_of(file)[0].health.reason)
    assert states == [None, "too hot", None]


def test_a_card_leaves_and_comes_back(file: Path) -> None:
    before = devices_of(file)
    file.write_text(NODE.split("- pci: 0000-9a")[0])
    assert devices_of(file) == before[:1]
    file.write_text(NODE)
    assert devices_of(file) == before


def test_cards_are_offered_as_real_ones_are(file: Path) -> None:
    offered = devices_of(file, unit="tile", shares=2, match={"driver": ["xe"]})
    assert [device.id for device in offered] == [f"0000-03-00.0-t{t}-s{s}" for t in (0, 1) for s in (0, 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cards: [", "line 1: .*not YAML"),
        ("cards: {}", "line 1: cards: must be a list, not a mapping"),
        ("", "it is empty"),
        ("cards: [{pci: 0000-03-00.0}]", r"line 1: cards\[0\]: nodes is missing"),
        ("cards: [{pci: '03', nodes: [{path: /dev/null}]}]", "must be PCI address"),
        (
            NODE.replace("0000-9a-00.0", "0000-03-00.0"),
            r"cards\[1\].pci: another card has the PCI address 0000:03:00.0",
        ),
        (NODE.replace("tiles: 2", "tile: 2"), "tile: is not a setting; did you mean tiles"),
    ],
)
def test_a_file_that_describes_no_cards_fails_the_scan_with_a_sentence(
    file: Path, text: str, said: str
) -> None:
    file.write_text(text)
    with pytest.raises(ScanError, match=said) as caught:
        devices_of(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_fails_the_scan_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot read the simulated cards in .*No such file"):
        devices_of(tmp_path / "gone.yaml")


CARD = {"pci": "0000-03-00.0", "nodes": [{"path": "/dev/null"}]}
OTHER = {"pci": "0000-04-00.0", "nodes": [{"path": "/dev/null"}]}


@pytest.mark.parametrize("fields", [{}, {"cards": [CARD], "file": "/x"}, {"cards": [CARD, CARD]}])
def test_contradictions_are_named(fields: dict[str, object]) -> None:
    assert msgspec.convert(fields, SimulatedSettings).problems()


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ({"cards": [CARD]}, {"cards": [CARD, OTHER]}, True),
        ({"cards": [CARD]}, {"cards": [OTHER]}, False),
        ({"file": "/x"}, {"file": "/x"}, True),
        ({"file": "/x"}, {"file": "/y"}, False),
        ({"file": "/x", "match": {"driver": ["xe"]}}, {"file": "/x", "match": {"driver": ["i915"]}}, False),
    ],
)
def test_overlap_is_of_cards_and_matches(
    one: dict[str, object], other: dict[str, object], *, meet: bool
) -> None:
    first, second = (msgspec.convert(fields, SimulatedSettings) for fields in (one, other))
    assert overlap(first, second) == meet


LINKED = """
cards:
- {pci: 0000-03-00.0, tiles: 2, nodes: [{path: /dev/null}], links: [{tile: 1, to: 0000-9a-00.0, to_tile: 0}]}
- {pci: 0000:9a:00.0, nodes: [{path: /dev/null}]}
"""


def test_link_is_one_of_both_its_cards(file: Path) -> None:
    file.write_text(LINKED)
    first, second = devices_of(file)
    assert first.links == (TileLink(1, second.unit, 0),)
    assert second.links == (TileLink(0, first.unit, 1),)


def test_link_that_is_written_at_both_its_ends_is_one(file: Path) -> None:
    both = LINKED.replace(
        "/dev/null}]}\n", "/dev/null}], links: [{tile: 0, to: 0000:03:00.0, to_tile: 1}]}\n"
    )
    assert both != LINKED
    file.write_text(LINKED)
    once = [device.links for device in devices_of(file)]
    file.write_text(both)
    assert [device.links for device in devices_of(file)] == once


@pytest.mark.parametrize(
    ("link", "field", "said"),
    [
        ({"tile": 2, "to": "0000-04-00.0", "to_tile": 0}, "tile", "0000-03-00.0 has no tile 2"),
        ({"tile": 0, "to": "0000-04-00.0", "to_tile": 1}, "to_tile", "0000-04-00.0 has no tile 1"),
        ({"tile": 0, "to": "0000:03:00.0", "to_tile": 1}, "to", "a card has no link to itself"),
        ({"tile": 0, "to": "0000-05-00.0", "to_tile": 0}, "to", "there is no card 0000-05-00.0"),
    ],
)
def test_link_to_nowhere_is_named(link: dict[str, object], field: str, said: str, file: Path) -> None:
    cards = [{**CARD, "tiles": 2, "links": [link]}, OTHER]
    (problem,) = msgspec.convert({"cards": cards}, SimulatedSettings).problems()
    assert (problem.field, problem.sentence) == (("cards", 0, "links", 0, field), said)
    file.write_text(json.dumps({"cards": cards}))
    with pytest.raises(ScanError, match=rf"cards\[0\]\.links\[0\]\.{field}: {said}"):
        devices_of(file)
