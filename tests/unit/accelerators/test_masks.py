import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.errors import MaskError
from accelet.accelerators.intel.masks import Hierarchy, VisibleCard, read_hierarchy, read_mask, write_mask

FLAT, COMBINED, COMPOSITE = Hierarchy.FLAT, Hierarchy.COMBINED, Hierarchy.COMPOSITE


@st.composite
def visible_cards(draw: st.DrawFn) -> VisibleCard:
    count = draw(st.integers(1, 4))
    return VisibleCard(count, draw(st.frozensets(st.integers(0, count - 1))))


views = st.lists(visible_cards(), min_size=1, max_size=8).filter(lambda cards: any(c.tiles for c in cards))
hierarchies = st.sampled_from(Hierarchy)


def card(count: int, *tiles: int) -> VisibleCard:
    return VisibleCard(count, frozenset(tiles))


@given(views, hierarchies)
def test_tiles_to_mask_to_tiles(cards: list[VisibleCard], hierarchy: Hierarchy) -> None:
    mask = write_mask(cards, hierarchy)
    shown = read_mask(mask or "", [c.tile_count for c in cards], hierarchy)
    assert shown == tuple(c.tiles for c in cards)


@given(views, hierarchies)
def test_mask_to_tiles_to_mask(cards: list[VisibleCard], hierarchy: Hierarchy) -> None:
    mask = write_mask(cards, hierarchy)
    counts = [c.tile_count for c in cards]
    shown = read_mask(mask or "", counts, hierarchy)
    assert (
        write_mask([VisibleCard(n, tiles) for n, tiles in zip(counts, shown, strict=True)], hierarchy) == mask
    )


@given(views, hierarchies)
def test_a_mask_is_absent_exactly_when_everything_is_given(
    cards: list[VisibleCard], hierarchy: Hierarchy
) -> None:
    mask = write_mask(cards, hierarchy)
    assert (mask is None) == all(len(c.tiles) == c.tile_count for c in cards)
    assert mask != ""


@given(views)
def test_combined_counts_as_flat_does(cards: list[VisibleCard]) -> None:
    assert write_mask(cards, COMBINED) == write_mask(cards, FLAT)


@given(st.lists(st.just(1), min_size=1, max_size=8).map(lambda ones: [card(1, 0) for _ in ones]), hierarchies)
def test_single_tile_cards_need_no_mask(cards: list[VisibleCard], hierarchy: Hierarchy) -> None:
    assert write_mask(cards, hierarchy) is None


@pytest.mark.parametrize(
    ("cards", "flat", "composite"),
    [
        ([card(2, 0)], "0", "0.0"),
        ([card(2, 1)], "1", "0.1"),
        ([card(2, 1), card(2, 0)], "1,2", "0.1,1.0"),
        ([card(2, 0, 1), card(2, 1)], "0,1,3", "0,1.1"),
        ([card(1, 0), card(2, 1), card(4, 2, 3)], "0,2,5,6", "0,1.1,2.2,2.3"),
        ([card(4, 0), card(1, 0), card(2, 0, 1)], "0,4,5,6", "0.0,1,2"),
        ([card(2), card(2, 0)], "2", "1.0"),
    ],
)
def test_numbers_count_the_tiles_of_the_cards_before(
    cards: list[VisibleCard], flat: str, composite: str
) -> None:
    assert write_mask(cards, FLAT) == flat
    assert write_mask(cards, COMPOSITE) == composite


@pytest.mark.parametrize(
    ("mask", "tile_counts", "hierarchy", "shown"),
    [
        ("", [2, 1], FLAT, [{0, 1}, {0}]),
        ("1,1,0", [2, 1], FLAT, [{0, 1}, set()]),
        ("0.1,2", [2, 1], FLAT, [set(), {0}]),  # card.tile means nothing where tiles are devices
        ("7,0", [2], FLAT, [{0}]),  # beyond the last is passed over
        ("0.0,1", [2, 2], COMPOSITE, [{0}, {0, 1}]),
        ("0.5,3.1,0.1", [2, 2], COMPOSITE, [{1}, set()]),
    ],
)
def test_reads_as_the_driver_does(
    mask: str, tile_counts: list[int], hierarchy: Hierarchy, shown: list[set[int]]
) -> None:
    assert read_mask(mask, tile_counts, hierarchy) == tuple(map(frozenset, shown))


@pytest.mark.parametrize("mask", ["a", "0,", ",0", "0.0.1", "-1", "0.", "0 1", "card0"])
def test_a_malformed_mask_is_refused_with_its_place(mask: str) -> None:
    with pytest.raises(MaskError, match="has an entry"):
        read_mask(mask, [2], FLAT)


@pytest.mark.parametrize("value", ["", "flat", "COMPOSITE ", "TREE"])
def test_an_unknown_hierarchy_is_refused_as_it_would_depend_on_the_driver(value: str) -> None:
    with pytest.raises(MaskError, match="ZE_FLAT_DEVICE_HIERARCHY"):
        read_hierarchy(value)


def test_no_tile_at_all_cannot_be_said() -> None:
    with pytest.raises(MaskError, match="no tile at all"):
        write_mask([card(2)], FLAT)


def test_tiles_a_card_does_not_have_are_no_card() -> None:
    with pytest.raises(MaskError, match="no tiles"):
        VisibleCard(2, frozenset({2}))
