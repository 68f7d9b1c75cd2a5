"""Which unit an id names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.accelerators.hardwarename import unit_named_by
from accelet.accelerators.intel.card import Card, Granularity, offer_cards
from accelet.accelerators.pci import PciAddress


@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from(["card", "tile"]))
def test_every_id_of_a_card_names_it_by_its_address(tiles: int, shares: int, unit: Granularity) -> None:
    pci = PciAddress(0, 3, 0, 0)
    card = Card(UnitId(pci.as_id), "card0", pci, tile_count=tiles)
    devices = offer_cards([card], unit, shares, "none")
    assert {unit_named_by(device.id) for device in devices} == {"0000:03:00.0"}


@pytest.mark.parametrize("text", ["fuse", "dev-video0", "card3"])
def test_what_has_no_address_keeps_its_name(text: str) -> None:
    assert unit_named_by(f"{text}-s3") == text
