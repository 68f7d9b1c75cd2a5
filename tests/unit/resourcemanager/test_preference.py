"""Which of the free devices a container had best get."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Device, DeviceId, UnitId
from resourcemanager.giving.preference import Policy, prefer

POLICIES: list[Policy] = ["none", "balanced", "packed"]


def cards(*shares: int) -> tuple[Device, ...]:
    """Cards with so many shares each, in order of hardware."""
    return tuple(
        Device(DeviceId(f"card{card}-s{share}"), UnitId(f"card{card}"))
        for card, count in enumerate(shares)
        for share in range(count)
    )


def tiles(cards: int, tiles: int, shares: int) -> tuple[Device, ...]:
    """Cards of which each tile is a device, with so many shares, in order of hardware."""
    return tuple(
        Device(DeviceId(f"card{card}-t{tile}-s{share}"), UnitId(f"card{card}"), tile=tile)
        for card in range(cards)
        for tile in range(tiles)
        for share in range(shares)
    )


def units_of(chosen: tuple[DeviceId, ...]) -> Counter[str]:
    return Counter(device.split("-")[0] for device in chosen)


def choose(
    devices: tuple[Device, ...], size: int, policy: Policy, *, taken: tuple[str, ...] = ()
) -> Counter[str]:
    available = [device.id for device in devices if device.id not in taken]
    return units_of(prefer(devices, available, (), size, policy=policy))


def test_none_takes_different_cards_first_in_order_of_hardware() -> None:
    devices = cards(3, 3, 3)
    assert prefer(devices, [d.id for d in reversed(devices)], (), 4, policy="none") == (
        "card0-s0",
        "card1-s0",
        "card2-s0",
        "card0-s1",
    )


def test_cards_are_counted_as_numbers_and_not_as_text() -> None:
    assert choose(cards(*[1] * 12), 3, "none") == {"card0": 1, "card1": 1, "card2": 1}


def test_balanced_takes_the_card_with_most_free() -> None:
    assert choose(cards(4, 4), 1, "balanced", taken=("card0-s0",)) == {"card1": 1}


def test_packed_takes_the_card_with_least_free_that_still_fits() -> None:
    devices = cards(4, 4, 4)
    taken = ("card0-s0", "card1-s0", "card1-s1", "card1-s2")
    assert choose(devices, 1, "packed", taken=taken) == {"card1": 1}
    assert choose(devices, 3, "packed", taken=taken) == {"card0": 3}


def test_packed_stays_on_the_card_it_must_include() -> None:
    devices = cards(2, 4)
    available = [device.id for device in devices]
    chosen = prefer(devices, available, [DeviceId("card1-s3")], 2, policy="packed")
    assert units_of(chosen) == {"card1": 2}


def test_only_valid_sets_are_chosen_where_there_are_any() -> None:
    devices = cards(1, 1, 1, 1)
    ids = [device.id for device in devices]
    pairs = [frozenset(ids[:2]), frozenset(ids[2:])]
    assert set(prefer(devices, ids[1:], (), 2, policy="none", valid_sets=pairs)) == pairs[1]
    assert prefer(devices, ids[1:3], (), 2, policy="none", valid_sets=pairs) == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_tile_that_is_free_comes_before_a_second_share_of_another(policy: Policy) -> None:
    devices = tiles(1, 2, 2)
    ids = [device.id for device in devices]
    assert prefer(devices, ids, (), 2, policy=policy) == ("card0-t0-s0", "card0-t1-s0")
    assert set(prefer(devices, ids, [DeviceId("card0-t0-s1")], 2, policy=policy)) == {
        "card0-t0-s1",
        "card0-t1-s0",
    }


def test_packed_takes_the_tiles_of_one_card() -> None:
    devices = tiles(2, 2, 2)
    available = [device.id for device in devices if device.id != "card1-t0-s0"]
    assert set(prefer(devices, available, (), 2, policy="packed")) == {"card1-t0-s1", "card1-t1-s0"}


@given(st.data(), *[st.integers(1, 3)] * 3, st.sampled_from(POLICIES))
def test_container_has_as_many_different_tiles_as_are_free(
    data: st.DataObject, cards: int, count: int, shares: int, policy: Policy
) -> None:
    devices = tiles(cards, count, shares)
    free = data.draw(st.lists(st.sampled_from([device.id for device in devices]), min_size=1, unique=True))
    size = data.draw(st.integers(1, len(free)))
    must = free[: data.draw(st.integers(0, size))]

    def tiles_of(ids: Iterable[DeviceId]) -> set[str]:
        return {device.rpartition("-")[0] for device in ids}

    chosen = prefer(devices, free, must, size, policy=policy)
    more = len(tiles_of(free) - tiles_of(must))
    assert len(tiles_of(chosen)) == len(tiles_of(must)) + min(size - len(must), more)


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=6), st.sampled_from(POLICIES))
def test_the_answer_has_the_size_the_must_and_only_what_is_available(
    data: st.DataObject, shares: list[int], policy: Policy
) -> None:
    devices = cards(*shares)
    stray = [DeviceId("stray-0"), DeviceId("stray-1")]
    available = data.draw(st.permutations([*[device.id for device in devices], *stray]))
    available = available[: data.draw(st.integers(1, len(available)))]
    size = data.draw(st.integers(1, len(available)))
    must = available[: data.draw(st.integers(0, size))]
    chosen = prefer(devices, available, must, size, policy=policy)
    assert len(chosen) == len(set(chosen)) == size
    assert set(must) <= set(chosen) <= set(available)
    shuffled = data.draw(st.permutations(available))
    assert prefer(devices, shuffled, list(reversed(must)), size, policy=policy) == chosen


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 12))
def test_balanced_never_leaves_cards_further_apart_than_needed(shares: list[int], size: int) -> None:
    devices = cards(*shares)
    size = min(size, len(devices))
    chosen = choose(devices, size, "balanced")
    for card, count in enumerate(shares):
        if chosen[f"card{card}"] > 1:
            assert all(chosen[f"card{other}"] >= 1 for other in range(len(shares))), (card, count)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 5))
def test_packed_uses_one_card_where_one_is_enough(shares: list[int], size: int) -> None:
    chosen = choose(cards(*shares), size, "packed") if size <= sum(shares) else Counter({"x": 1})
    if max(shares) >= size:
        assert len(chosen) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_that_cannot_be_met_has_no_opinion(policy: Policy) -> None:
    devices = cards(2)
    ids = [device.id for device in devices]
    assert prefer(devices, ids, ids, 1, policy=policy) == ()
    assert prefer(devices, ids[:1], (), 2, policy=policy) == ()
    assert prefer((), (), (), 0, policy=policy) == ()
