"""Cards and tiles on one node: exact against brute force, and nothing is ever given twice."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product
from math import prod
from threading import Thread
from time import perf_counter

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from accelet.accelerators.device import TileLink, UnitId
from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cards.catalog import CardCatalog
from accelet.scheduler.cards.choice import Fit, fit_pods
from accelet.scheduler.cards.needs import Amounts, CardNeeds, ContainerNeed
from accelet.scheduler.cards.never import say_never
from accelet.scheduler.cards.reasons import MEMORY_NOT_KNOWN, describe_refusal, needs_to_know_memory
from accelet.scheduler.cards.search import CardPolicy
from accelet.scheduler.cards.state import CardState, CardStates, Hold

I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"


def card(number: int, *, tiles: int = 2, memory: int = 8, numa: int | None = 0, links: str = "") -> CardState:
    """An untouched card; `links` are like `0-c2.1 1-c3.0`: this tile, that card's tile."""
    return CardState(
        id=UnitId(f"c{number}"),
        resource=I915,
        card=f"card{number}",
        numa_node=numa,
        links=tuple(_link(text) for text in links.split()),
        tile_count=tiles,
        tiles=frozenset(range(tiles)),
        memory_bytes=memory,
        memory_total=memory,
        shares=8,
        share_total=8,
    )


def _link(text: str) -> TileLink:
    tile, far = text.split("-")
    unit, far_tile = far.split(".")
    return TileLink(int(tile), UnitId(unit), int(far_tile))


def need(name: str = "a", *, cards: int = 1, resource: str = I915, **each: int) -> ContainerNeed:
    return ContainerNeed(name, resource, cards, Amounts(**each))


def pod(
    *needs: ContainerNeed,
    same_card: frozenset[str] = frozenset(),
    is_linked: bool = False,
    is_single_numa: bool = False,
) -> CardNeeds:
    return CardNeeds(needs, same_card=same_card, is_linked=is_linked, is_single_numa=is_single_numa)


@st.composite
def nodes(draw: st.DrawFn) -> CardStates:
    """Up to four cards, alike or not, some of them in use, with links between some of their tiles."""
    count = draw(st.sampled_from((3, 4, 2, 1)))
    states = []
    for number in range(count):
        tiles = draw(st.sampled_from((2, 2, 1, 3)))
        fresh = card(
            number,
            tiles=tiles,
            memory=draw(st.sampled_from((8, 8, 4, 0))),
            numa=draw(st.sampled_from((0, 0, 1, None))),
        )
        split = draw(st.sampled_from((False, False, True)))
        states.append(
            replace(
                fresh,
                resource=draw(st.sampled_from((I915,) * 6 + (XE,))),
                tiles=frozenset(draw(st.sets(st.sampled_from(range(tiles)), min_size=0 if split else tiles))),
                millicores=draw(st.sampled_from((1000, 1000, 1000, 300, -100))),
                shares=draw(st.sampled_from((8, 8, 8, 3, 1, -1))),
                is_split=split and draw(st.booleans()),
                is_shared=not split and draw(st.sampled_from((False, False, False, True))),
                is_open=draw(st.sampled_from((True,) * 6 + (False,))),
            )
        )
    ends = st.sampled_from([(state, tile) for state in states for tile in range(state.tile_count)])
    for (one, tile), (other, far_tile) in draw(st.lists(st.tuples(ends, ends), max_size=5)):
        if one.id != other.id:
            for near, at, far, there in ((one, tile, other, far_tile), (other, far_tile, one, tile)):
                index = next(i for i, state in enumerate(states) if state.id == near.id)
                links = {*states[index].links, TileLink(at, far.id, there)}
                states[index] = replace(states[index], links=tuple(sorted(links)))
    return tuple(states)


@st.composite
def wishes(draw: st.DrawFn) -> CardNeeds:
    """What one pod of up to three containers asks for."""
    names = draw(st.sampled_from(("a", "ab", "abc")))
    is_linked = draw(st.sampled_from((False, False, False, True)))
    needs = []
    for name in names:
        tiles = 1 if is_linked else draw(st.sampled_from((0, 1, 1, 2)))
        cards = 2 if is_linked else draw(st.sampled_from((1, 1, 1, 2)))
        needs.append(
            need(
                name,
                cards=cards,
                resource=draw(st.sampled_from((I915,) * 6 + (XE,))),
                tiles=tiles,
                millicores=draw(st.sampled_from((0, 0, 300, 500, 600))),
                memory_bytes=draw(st.sampled_from((0, 0, 0, 2, 5))),
            )
        )
    alike = [n.name for n in needs if n.cards == 1 and n.resource == I915 and n.each.tiles]
    some = st.frozensets(st.sampled_from([f"card{number}" for number in range(4)]))
    return CardNeeds(
        containers=tuple(needs),
        same_card=frozenset(alike) if len(alike) > 1 and draw(st.booleans()) else frozenset(),
        allowed=draw(some) if draw(st.integers(0, 5)) == 0 else None,
        denied=draw(some) if draw(st.integers(0, 3)) == 0 else frozenset(),
        is_linked=is_linked,
        is_single_numa=draw(st.sampled_from((False, False, True))) and sum(n.cards for n in needs) > 1,
    )


Given = Sequence[dict[str, tuple[Hold, ...]]]


def is_right(states: CardStates, pods: Sequence[CardNeeds], given: Given) -> bool:
    """Whether so many cards and tiles go to these pods, by the letter of what each of them asks for."""
    if not all(_suits(states, needs, of_pod) for needs, of_pod in zip(pods, given, strict=True)):
        return False
    held = [
        (one, hold)
        for needs, of_pod in zip(pods, given, strict=True)
        for one in needs.containers
        for hold in of_pod[one.name]
    ]
    return all(
        _bears(state, [(one.each, hold.tiles) for one, hold in held if hold.card == index])
        for index, state in enumerate(states)
    )


def _suits(states: CardStates, needs: CardNeeds, given: dict[str, tuple[Hold, ...]]) -> bool:
    numas = {states[hold.card].numa_node for holds in given.values() for hold in holds}
    return (
        all(_has_what_it_asks_for(states, needs, one, given[one.name]) for one in needs.containers)
        and len({given[name][0].card for name in needs.same_card}) <= 1
        and not (needs.is_single_numa and (len(numas) > 1 or None in numas))
    )


def _bears(state: CardState, held: Sequence[tuple[Amounts, tuple[int, ...]]]) -> bool:
    tiles = [tile for _, some in held for tile in some]
    has_whole = any(not some for _, some in held)
    millicores, memory = (
        sum(each.millicores for each, _ in held),
        sum(each.memory_bytes for each, _ in held),
    )
    return not held or (
        state.is_open
        and len(set(tiles)) == len(tiles)
        and set(tiles) <= state.tiles
        and not (tiles and (has_whole or state.is_shared))
        and not (has_whole and state.is_split)
        and len(held) <= state.shares
        and (not millicores or millicores <= state.millicores)
        and (not memory or memory <= state.memory_bytes)
    )


def _has_what_it_asks_for(
    states: CardStates, needs: CardNeeds, one: ContainerNeed, holds: Sequence[Hold]
) -> bool:
    cards = [states[hold.card] for hold in holds]
    if len(holds) != one.cards or len({hold.card for hold in holds}) < len(holds):
        return False
    for state, hold in zip(cards, holds, strict=True):
        if state.resource != one.resource or len(hold.tiles) != one.each.tiles or state.card in needs.denied:
            return False
        if needs.allowed is not None and state.card not in needs.allowed:
            return False
    if not needs.is_linked:
        return True
    return any(
        all(
            TileLink(a.tiles[0], states[b.card].id, b.tiles[0]) in states[a.card].links
            for a, b in zip(order[::2], order[1::2], strict=True)
        )
        for order in permutations(holds)
    )


MOST_WAYS = 20_000
"""More are not tried one by one: some nodes have millions, and a run of the tests has minutes."""


def every_way(states: CardStates, pods: Sequence[CardNeeds]) -> Iterator[Given]:
    """All ways to give all containers cards and tiles, right or not."""
    places = [(index, one) for index, needs in enumerate(pods) for one in needs.containers]
    ways = _list_ways(states, [one for _, one in places])
    assume(prod(map(len, ways)) <= MOST_WAYS)
    for choice in product(*ways):
        given: list[dict[str, tuple[Hold, ...]]] = [{} for _ in pods]
        for (index, one), holds in zip(places, choice, strict=True):
            given[index][one.name] = holds
        yield given


def _list_ways(states: CardStates, containers: Sequence[ContainerNeed]) -> list[list[tuple[Hold, ...]]]:
    """For each container by itself, all ways to give it cards and tiles."""
    ways = []
    for one in containers:
        of_one: list[tuple[Hold, ...]] = []
        for cards in combinations(range(len(states)), one.cards):
            tiles = [combinations(sorted(states[c].tiles), one.each.tiles) for c in cards]
            of_one += [
                tuple(Hold(c, some) for c, some in zip(cards, chosen, strict=True))
                for chosen in product(*tiles)
            ]
        ways.append(of_one)
    return ways


@given(nodes(), st.lists(wishes(), min_size=1, max_size=2), st.sampled_from(("packed", "balanced")))
def test_fits_agree_with_brute_force(states: CardStates, pods: list[CardNeeds], policy: CardPolicy) -> None:
    assume(sum(len(needs.containers) for needs in pods) <= 4)
    fit = fit_pods(states, pods, policy)
    assert fit.is_decided
    event(f"fits: {fit.holds is not None}")
    if fit.holds is not None:
        assert is_right(states, pods, fit.holds)
    else:
        assert not any(is_right(states, pods, way) for way in every_way(states, pods))


@given(nodes(), st.lists(wishes(), min_size=1, max_size=2))
def test_what_is_left_is_what_there_was_without_what_was_given(
    states: CardStates, pods: list[CardNeeds]
) -> None:
    fit = fit_pods(states, pods)
    event(f"fits: {fit.holds is not None}")
    if fit.holds is None:
        return
    tiles: Counter[tuple[int, int]] = Counter()
    shares: Counter[int] = Counter()
    for of_pod in fit.holds:
        for holds in of_pod.values():
            shares.update(hold.card for hold in holds)
            tiles.update((hold.card, tile) for hold in holds for tile in hold.tiles)
    for index, (before, after) in enumerate(zip(states, fit.left, strict=True)):
        assert after.tiles == before.tiles - {tile for number, tile in tiles if number == index}
        assert after.shares == before.shares - shares[index]
        if shares[index]:
            assert after.is_split or after.is_shared
            assert not (after.is_split and after.is_shared)


@given(nodes(), wishes(), st.frozensets(st.integers(0, 3)))
def test_memory_is_said_to_be_unknown_exactly_where_some_amount_of_it_would_help(
    states: CardStates, needs: CardNeeds, unknown: frozenset[int]
) -> None:
    seen = tuple(
        replace(state, memory_bytes=0, memory_total=0, is_memory_known=False) if number in unknown else state
        for number, state in enumerate(states)
    )
    assume(fit_pods(seen, [needs]).holds is None)
    amounts = [(state.memory_bytes,) if state.is_memory_known else (0, 5, 30) for state in seen]
    would_help = any(
        fit_pods(
            tuple(replace(state, memory_bytes=amount) for state, amount in zip(seen, some, strict=True)),
            [needs],
        ).holds
        for some in product(*amounts)
    )
    event(f"would help: {would_help}")
    assert needs_to_know_memory(seen, needs) == would_help
    if would_help:
        assert describe_refusal(seen, needs) == MEMORY_NOT_KNOWN
        assert "is not known; set `memory`" in say_never(needs, {"n": seen})
    else:
        assert "no node is known" not in say_never(needs, {"n": seen})


@given(nodes(), wishes())
def test_like_pods_are_counted_as_they_fit_together(states: CardStates, needs: CardNeeds) -> None:
    catalog = CardCatalog()
    count, most = catalog.count(catalog.code(states), needs)
    assert count == most
    assert count == 0 or fit_pods(states, [needs] * count).holds is not None
    assert fit_pods(states, [needs] * (count + 1)).holds is None
    for pods in range(1, count + 2):
        assert min(catalog.count(catalog.code(states), needs, pods)[0], pods) == min(count, pods)


def _names(fit: Fit, container: str = "a") -> list[int]:
    assert fit.holds is not None
    return [hold.card for hold in fit.holds[0][container]]


def test_packed_keeps_whole_cards_free_and_balanced_does_not() -> None:
    used = card(1).without(Amounts(tiles=1), frozenset((0,)), 1)
    states = (card(0), used, card(2))
    assert _names(fit_pods(states, [pod(need(tiles=1))], "packed")) == [1]
    assert _names(fit_pods(states, [pod(need(tiles=1))], "balanced")) == [0]


def test_a_policy_never_costs_a_fit() -> None:
    # The fullest card would do for the small container, and only it has what the large one needs.
    full = replace(card(0), memory_bytes=6, memory_total=8, millicores=700)
    states = (full, replace(card(1), memory_bytes=4, memory_total=4))
    pods = [pod(need(memory_bytes=3)), pod(need(memory_bytes=6))]
    for policy in ("packed", "balanced"):
        fit = fit_pods(states, pods, policy)
        assert fit.holds == ({"a": (Hold(1),)}, {"a": (Hold(0),)})


def test_what_one_card_has_counts_and_not_what_the_node_has() -> None:
    half_used = tuple(card(n).without(Amounts(millicores=600), frozenset(), 1) for n in range(4))
    assert fit_pods(half_used, [pod(need(millicores=500))]).holds is None
    assert fit_pods(half_used, [pod(need(millicores=400))]).holds is not None


def test_who_shares_a_card_gets_none_whose_tiles_are_held() -> None:
    split = card(0).without(Amounts(tiles=1), frozenset((1,)), 1)
    assert fit_pods((split,), [pod(need(millicores=100))]).holds is None
    shared = card(0).without(Amounts(millicores=100), frozenset(), 1)
    assert fit_pods((shared,), [pod(need(tiles=1))]).holds is None


def test_containers_of_one_card_get_tiles_of_their_own() -> None:
    needs = pod(need("a", tiles=1), need("b", tiles=1), same_card=frozenset("ab"))
    fit = fit_pods((card(0, tiles=1), card(1, tiles=1), card(2)), [needs])
    assert fit.holds == ({"a": (Hold(2, (0,)),), "b": (Hold(2, (1,)),)},)


def test_linked_tiles_are_those_of_the_link() -> None:
    states = (card(0, links="1-c2.0"), card(1), card(2, links="0-c0.1"))
    needs = pod(need(cards=2, tiles=1), is_linked=True)
    fit = fit_pods(states, [needs])
    assert fit.holds is not None
    assert set(fit.holds[0]["a"]) == {Hold(0, (1,)), Hold(2, (0,))}
    taken = (replace(states[0], tiles=frozenset((0,)), is_split=True), *states[1:])
    assert fit_pods(taken, [needs]).holds is None


def test_all_cards_of_a_pod_are_of_one_numa_node() -> None:
    states = (card(0, numa=0), card(1, numa=1), card(2, numa=None), card(3, numa=1))
    needs = pod(need("a", tiles=2), need("b", tiles=2), is_single_numa=True)
    fit = fit_pods(states, [needs])
    assert fit.holds == ({"a": (Hold(1, (0, 1)),), "b": (Hold(3, (0, 1)),)},)


def test_past_its_budget_the_answer_is_that_it_is_undecided() -> None:
    states = tuple(replace(card(n), shares=9, share_total=9, memory_bytes=10) for n in range(2))
    pods = [pod(need(memory_bytes=amount)) for amount in (5, 4, 4, 3, 2, 2)]
    fit = fit_pods(states, pods, tries=6)
    assert fit.holds is None
    assert not fit.is_decided
    assert fit_pods(states, pods).holds is not None


def test_hundreds_of_like_cards_are_one_choice() -> None:
    states = tuple(replace(card(n, tiles=1), memory_bytes=4 if n % 2 else 8) for n in range(500))
    taken = [pod(need(cards=4, tiles=4, memory_bytes=8)) for _ in range(62)]
    assert fit_pods(states, taken).holds is None, "four tiles of a card that has one"
    taken = [pod(need(cards=4, tiles=1, memory_bytes=8)) for _ in range(62)]
    fit = fit_pods(states, taken, tries=100)
    assert fit.holds is not None
    assert not fit_pods(states, [*taken, *[pod(need(cards=3, tiles=1, memory_bytes=8))]], tries=100).holds


def test_choices_that_come_to_the_same_count_too() -> None:
    states = tuple(replace(card(n, tiles=1), shares=1, share_total=1) for n in range(40))
    names = frozenset(f"card{n}" for n in range(40))
    many = replace(pod(need(cards=20)), allowed=names)
    never = replace(pod(need("a"), need("b")), allowed=frozenset(("card0",)))
    fit = fit_pods(states, [many, never])
    assert fit.holds is None
    assert not fit.is_decided


def test_who_places_one_pod_does_not_search_for_how_many_more_would_fit() -> None:
    catalog = CardCatalog()
    states = tuple(
        replace(card(n), shares=300, share_total=300, memory_bytes=6007 + 13 * n, memory_total=9000)
        for n in range(8)
    )
    needs = pod(need("a", millicores=97, memory_bytes=733), need("b", millicores=61, memory_bytes=409))
    started_s = perf_counter()
    for number in range(100):
        odd = (replace(states[0], memory_bytes=5000 + number), *states[1:])
        assert catalog.count(catalog.code(odd), needs, 1)[0] > 1
    assert perf_counter() - started_s < 2, "a search past its budget takes 50 ms"


def test_what_fits_one_by_one_fits_together() -> None:
    millicores = (768, 732, 760, 930, 894, 748, 714, 921)
    memory = (5965, 5322, 5814, 5767, 5229, 5799, 5598, 6044)
    states = tuple(
        replace(card(n), shares=99, share_total=99, millicores=millicores[n], memory_bytes=memory[n])
        for n in range(8)
    )
    needs = pod(need("a", millicores=20, memory_bytes=328), need("b", millicores=37, memory_bytes=217))
    left, count = states, 0
    while (one := fit_pods(left, [needs])).holds is not None:
        left, count = one.left, count + 1
    fit = fit_pods(states, [needs] * count)
    assert fit.holds is not None
    assert len(fit.holds) == count
    assert fit_pods(states, [needs] * 300).holds is None, "more than is searched for"


def test_with_little_left_of_a_budget_only_what_goes_without_turning_back_is_found() -> None:
    catalog = CardCatalog()
    code = catalog.code(tuple(replace(card(n), shares=9, share_total=9, memory_bytes=10) for n in range(2)))
    hard = Counter(pod(need(memory_bytes=amount)) for amount in (5, 4, 4, 3, 2, 2))
    short = Budget(100_000)
    short.left = 10_000
    assert catalog.fits(code, hard, short) is None
    assert catalog.fits(code, Counter([pod(need(memory_bytes=9))]), short)
    assert catalog.fits(code, hard, Budget())
    short.left = 0
    with pytest.raises(BudgetSpentError):
        catalog.fits(code, Counter([pod(need(memory_bytes=8))]), short)


def test_a_thousand_unlike_cards_are_chosen_from() -> None:
    states = tuple(replace(card(n, tiles=1), memory_bytes=n) for n in range(1000))
    assert fit_pods(states, [pod(need(cards=990))]).holds is not None


def test_links_that_lead_nowhere_end_within_the_budget() -> None:
    everywhere = [(t, o, f) for t in range(8) for o in range(8) for f in range(8)]
    states = tuple(
        card(n, tiles=8, links=" ".join(f"{t}-c{o}.{f}" for t, o, f in everywhere if (n < 4) == (o < 4)))
        for n in range(7)
    )
    fit = fit_pods(states, [pod(need(cards=8, tiles=1), is_linked=True)])
    assert fit.holds is None
    fit = fit_pods(
        states, [pod(need("a", cards=4, tiles=1), need("b", cards=4, tiles=1), is_linked=True)] * 9
    )
    assert fit.holds is None


@pytest.mark.parametrize("policy", ["packed", "balanced"])
def test_eight_cards_of_eight_tiles_are_filled_to_the_last_tile(policy: CardPolicy) -> None:
    states = tuple(replace(card(n, tiles=8), shares=64, share_total=64) for n in range(8))
    pods = [pod(need(tiles=size)) for size in (5, 3, 4, 4, 6, 2, 7, 1) * 2]
    fit = fit_pods(states, pods, policy)
    assert fit.holds is not None
    assert all(not state.tiles for state in fit.left)


def test_cards_keep_their_number_though_two_threads_ask() -> None:
    """The planning of a former leadership may still run when the next one begins."""
    catalog = CardCatalog()
    wrong: list[int] = []

    def ask(start: int) -> None:
        for number in range(start, start + 2000):
            states = (replace(card(0), memory_bytes=number),)
            if catalog.states(catalog.code(states)) != states:
                wrong.append(number)

    threads = [Thread(target=ask, args=(start,)) for start in range(0, 8000, 2000)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_of_equal_cards_few_are_kept() -> None:
    catalog = CardCatalog()
    for _ in range(1000):
        catalog.code(tuple(card(n) for n in range(8)))
    assert catalog.size <= 100
