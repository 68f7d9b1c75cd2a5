from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.accelerators.intel.card import Card, Kind
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.match import CardMatch
from accelet.accelerators.pci import PciAddress
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import MIXED

INTEGRATED, PONTE_VECCHIO, XE_MAX, BATTLEMAGE = (
    "0000-00-02.0",
    "0000-29-00.0",
    "0000-3a-00.0",
    "0000-9a-00.0",
)


def read(criteria: dict[str, object]) -> CardMatch:
    return msgspec.convert(criteria, CardMatch)


@pytest.mark.parametrize(
    ("criteria", "selected"),
    [
        ({}, [INTEGRATED, PONTE_VECCHIO, XE_MAX, BATTLEMAGE]),
        ({"driver": ["i915"]}, [INTEGRATED, PONTE_VECCHIO]),
        ({"driver": ["i915", "xe"], "kind": "discrete"}, [PONTE_VECCHIO, XE_MAX, BATTLEMAGE]),
        ({"kind": "integrated"}, [INTEGRATED]),
        ({"device_id": ["0x0bd5", "0x0BDA"]}, [PONTE_VECCHIO, XE_MAX]),
        ({"id": "0000-?a-*"}, [XE_MAX, BATTLEMAGE]),
        ({"id": "0000:9A:*"}, [BATTLEMAGE]),
        ({"driver": ["xe"], "id": "0000-29-*"}, []),
    ],
)
def test_all_criteria_must_hold(tmp_path: Path, criteria: dict[str, object], selected: list[str]) -> None:
    write_gpus(tmp_path, MIXED)
    inventory = IntelGpuSettings(match=read(criteria)).backend().scan(tmp_path)
    assert [device.unit for device in inventory.devices] == selected
    left_out = {skip.unit for skip in inventory.skipped if skip.code == "not-selected"}
    assert left_out == {INTEGRATED, PONTE_VECCHIO, XE_MAX, BATTLEMAGE} - set(selected)


@pytest.mark.parametrize(
    ("criteria", "reason"),
    [
        ({"driver": ["xe"]}, "its driver is i915, not xe"),
        ({"device_id": ["0x56c0", "0x56c1"]}, "its PCI device id is 0x4680, not 0x56c0 or 0x56c1"),
        ({"kind": "discrete"}, "it is integrated, not discrete"),
        ({"id": "0000-9*"}, "its id 0000-00-02.0 does not match 0000-9*"),
    ],
)
def test_what_is_left_out_says_by_which_criterion(
    tmp_path: Path, criteria: dict[str, object], reason: str
) -> None:
    write_gpus(tmp_path, MIXED[:1])
    (skip,) = IntelGpuSettings(match=read(criteria)).backend().scan(tmp_path).skipped
    assert skip.reason == f"this resource leaves it out: {reason}"


@pytest.mark.parametrize(
    "criteria",
    [
        {"driver": []},
        {"device_id": []},
        {"driver": ["i915 "]},
        {"device_id": ["56c0"]},
        {"device_id": ["0x10000"]},
        {"kind": "external"},
        {"id": ""},
        {"drivers": ["xe"]},
    ],
)
def test_malformed_criteria_are_refused(criteria: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(criteria)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ({}, {}, True),
        ({"driver": ["i915"]}, {"driver": ["xe"]}, False),
        ({"driver": ["i915", "xe"]}, {"driver": ["xe"]}, True),
        ({}, {"driver": ["vfio-pci"]}, False),
        ({"device_id": ["0x56c0"]}, {"device_id": ["0x56C0"]}, True),
        ({"device_id": ["0x56c0"]}, {"device_id": ["0x0bd5"]}, False),
        ({"kind": "integrated"}, {"kind": "discrete"}, False),
        ({"kind": "integrated"}, {}, True),
        ({"id": "0000-03-*"}, {"id": "0000:03:*"}, True),
        ({"id": "0000-03-00.0"}, {"id": "0000-*"}, True),
        ({"id": "0000-03-00.0"}, {"id": "0000-9a-*"}, False),
        ({"id": "0000-*-00.0"}, {"id": "0000-03-*"}, False),  # open: left to the scan
    ],
)
def test_overlap_of_criteria(one: dict[str, object], other: dict[str, object], *, overlap: bool) -> None:
    assert read(one).overlaps(read(other)) == overlap
    assert read(other).overlaps(read(one)) == overlap


addresses = st.sampled_from(["0000:00:02.0", "0000:03:00.0", "0000:9a:00.0"])
drivers = st.sampled_from(["i915", "xe", "vfio-pci"])
device_ids = st.sampled_from(["0x56c0", "0x0bd5", "0x4680"])
kinds: st.SearchStrategy[Kind | None] = st.sampled_from([None, "integrated", "discrete"])
matches = st.builds(
    CardMatch,
    driver=st.none() | st.lists(drivers, min_size=1, max_size=2).map(tuple),
    device_id=st.none() | st.lists(device_ids, min_size=1, max_size=2).map(tuple),
    kind=kinds,
    id=st.none() | addresses,
)


@st.composite
def cards(draw: st.DrawFn) -> Card:
    pci = PciAddress.parse(draw(addresses))
    assert pci
    return Card(UnitId(pci.as_id), "card0", pci, draw(device_ids), draw(drivers), draw(kinds))


@given(matches, matches, cards())
def test_a_card_of_two_matches_means_that_they_overlap(one: CardMatch, other: CardMatch, card: Card) -> None:
    if one.refusal(card) is None and other.refusal(card) is None:
        assert one.overlaps(other)
        assert other.overlaps(one)
