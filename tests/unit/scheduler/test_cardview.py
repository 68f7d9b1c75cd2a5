"""What people are shown of cards is what the scheduler counts."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from accelet.accelerators.device import Health, UnitId
from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.nodes import Node
from accelet.scheduler.cards.account import CardAccount, Use
from accelet.scheduler.cards.choice import fit_pods
from accelet.scheduler.cards.lingering import parse_lingering, render_lingering
from accelet.scheduler.cards.needs import Amounts, CardNeeds, ContainerNeed
from accelet.scheduler.cards.state import CardState
from accelet.scheduler.cards.view import CardView, ClusterView, TotalView, view_cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.state import SchedulerState
from tests.fakes import pods as fakes
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import card_node

I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"


def card(number: int, *, tiles: int = 2, memory: int | None = 8, shares: int = 4) -> NodeCard:
    return NodeCard(
        UnitId(f"c{number}"),
        I915,
        card=f"card{number}",
        tiles=tiles,
        memory_bytes=memory,
        shares=shares,
    )


def use(name: str, number: int, *tiles: int, resource: str = I915, **each: int) -> Use:
    return Use(name, resource, unit(UnitId(f"c{number}"), *tiles), Amounts(len(tiles), **each))


def book_of(*nodes: Node, **pods: Sequence[Use]) -> CardAccount:
    """Pods are all on the first of the nodes."""
    book = CardAccount()
    for one in nodes:
        book.set_node(one)
    for name, uses in pods.items():
        book.hold(("ml", name), nodes[0].name, tuple(uses))
    return book


def look(*nodes: Node, **pods: Sequence[Use]) -> ClusterView:
    return view_cluster(nodes, book_of(*nodes, **pods))


def look_at_card(of: Node, **pods: Sequence[Use]) -> CardView:
    return look(of, **pods).nodes[0].cards[0]


def states(shown: CardView) -> str:
    return " ".join(tile.state for tile in shown.tiles)


def free_of(shown: CardView) -> tuple[int, int | None, int]:
    return shown.millicores_free, shown.memory_free_bytes, shown.shares_free


def test_a_node_that_is_gone_is_forgotten_with_its_last_pod() -> None:
    """An autoscaler gives every node a new name."""
    book = book_of(card_node("n", card(0)), p=[use("main", 0, 1)])
    book.remove_node("n")
    assert list(book.nodes) == ["n"]
    book.give_back(("ml", "p"))
    assert list(book.nodes) == []
    book.set_node(card_node("m", card(0)))
    book.set_node(Node("m"))
    assert list(book.nodes) == []


def test_an_untouched_card_is_free() -> None:
    shown = look_at_card(card_node("n", card(0)))
    assert (states(shown), shown.is_free, shown.health) == ("free free", True, "Healthy")
    assert (shown.millicores_free, shown.memory_free_bytes) == (1000, 8)


def test_a_tile_shows_its_holder_and_the_card_what_that_leaves() -> None:
    shown = look_at_card(card_node("n", card(0)), p=[use("main", 0, 1, millicores=300, memory_bytes=2)])
    assert [tile.holders for tile in shown.tiles] == [(), ("ml/p/main",)]
    assert (states(shown), shown.is_free) == ("free held", False)
    assert (shown.millicores_free, shown.memory_free_bytes, shown.shares_free) == (700, 6, 1)


def test_who_shares_a_card_sees_all_its_tiles() -> None:
    shown = look_at_card(card_node("n", card(0)), b=[use("main", 0)], a=[use("main", 0)])
    assert [tile.holders for tile in shown.tiles] == [("ml/a/main", "ml/b/main")] * 2
    assert (states(shown), shown.conflicts) == ("shared shared", ())


def test_a_card_with_unassigned_containers_is_shared_by_nobody_knows_whom() -> None:
    shown = look_at_card(card_node("n", replace(card(0), unassigned=2)))
    assert (states(shown), shown.is_free, shown.unassigned) == ("shared shared", False, 2)


def test_an_ill_card_says_why() -> None:
    shown = look_at_card(card_node("n", replace(card(0), health=Health("it is wedged"))))
    assert (states(shown), shown.health, shown.in_service) == ("closed closed", "it is wedged", True)
    assert free_of(shown) == (0, 0, 0)


def test_a_card_whose_tiles_are_all_held_has_nothing_free() -> None:
    shown = look_at_card(card_node("n", card(0, shares=300)), p=[use("main", 0, 0, 1)])
    assert (states(shown), free_of(shown)) == ("held held", (0, 0, 0))


def test_a_card_that_is_divided_has_as_many_shares_free_as_tiles() -> None:
    shown = look_at_card(card_node("n", card(0, tiles=3, shares=300)), p=[use("main", 0, 0)])
    assert (states(shown), free_of(shown)) == ("held free free", (1000, 8, 2))


def test_a_node_that_is_cordoned_has_nothing_free() -> None:
    view = look(replace(card_node("n", card(0), card(1)), unschedulable=True), p=[use("main", 0, 0)])
    (shown,) = view.nodes
    assert shown.is_cordoned
    assert [(states(one), free_of(one)) for one in shown.cards] == [
        ("held closed", (0, 0, 0)),
        ("closed closed", (0, 0, 0)),
    ]
    (total,) = view.totals
    assert (total.tiles_free, total.largest_millicores, total.tiles_closed, total.cards_free) == (0, 0, 3, 0)


def test_cards_and_tiles_out_of_service_are_shown_also_while_they_are_held() -> None:
    labels = {"gas-disable-card0": "true", "policy/gas-tile-disable-card1_gt1": "true"}
    of = card_node("n", card(0), card(1), labels=labels)
    shown = look(of, p=[use("main", 0, 0), use("main", 1, 1)]).nodes[0].cards
    assert [states(one) for one in shown] == ["held closed", "free held"]
    assert [one.in_service for one in shown] == [False, True]
    assert [[tile.in_service for tile in one.tiles] for one in shown] == [[False, False], [True, False]]


def test_a_tile_nobody_can_have_for_want_of_a_share_is_blocked() -> None:
    assert states(look_at_card(card_node("n", card(0, shares=1)), p=[use("main", 0, 0)])) == "held blocked"


def test_memory_that_cannot_be_told_is_not_none() -> None:
    shown = look_at_card(card_node("n", card(0, memory=None)))
    assert (shown.memory_bytes, shown.memory_free_bytes) == (None, None)


def test_a_tile_held_twice_is_contested_and_says_by_whom() -> None:
    shown = look_at_card(card_node("n", card(0)), a=[use("main", 0, 1)], b=[use("x", 0, 1)])
    assert states(shown) == "free contested"
    assert shown.conflicts == ("tile 1 is held by ml/a/main and ml/b/x, each alone",)
    assert shown.tiles[1].holders == ("ml/a/main", "ml/b/x")


def test_a_divided_card_that_is_given_whole_too_is_contested() -> None:
    shown = look_at_card(
        card_node("n", replace(card(0), unassigned=1)), a=[use("main", 0, 1)], b=[use("main", 0)]
    )
    assert states(shown) == "shared contested"
    (conflict,) = shown.conflicts
    assert conflict.startswith("tiles of it are held by ml/a/main, and the whole of it by ml/b/main and ")


def test_more_than_a_card_has_is_a_conflict() -> None:
    pods = {name: [use("main", 0, millicores=600, memory_bytes=5)] for name in "abc"}
    assert look_at_card(card_node("n", card(0, shares=2)), **pods).conflicts == (
        "1800 of its 1000 millicores are held",
        "7 bytes of memory are held that it does not have",
        "it has 3 holders and 2 shares",
    )


def test_a_tile_the_card_does_not_have_is_a_conflict() -> None:
    shown = look_at_card(card_node("n", card(0)), p=[use("main", 0, 5)])
    assert shown.conflicts == ("ml/p/main holds tile 5, which the card does not have",)


def test_what_is_assigned_and_not_there_is_shown_with_the_node() -> None:
    (shown,) = look(card_node("n", card(0)), p=[use("main", 7, 0, 1)]).nodes
    assert [(stray.container, stray.devices) for stray in shown.strays] == [("ml/p/main", "c7 tiles 0 and 1")]


def test_a_node_without_cards_says_so() -> None:
    view = look(Node("b"), card_node("a"))
    assert [(one.name, one.problem, one.is_bare) for one in view.nodes] == [
        ("a", "publishes no cards", True),
        ("b", "publishes no cards", True),
    ]
    assert view.totals == ()


def test_an_annotation_that_cannot_be_read_is_a_problem_of_its_node_alone() -> None:
    broken, well = look(
        node("a", annotations={NODE_CARDS_ANNOTATION: "{"}), card_node("b", card(0)), p=[use("main", 0)]
    ).nodes
    assert broken.problem is not None
    assert broken.problem.startswith("accelet.dev/cards: ")
    assert (broken.cards, broken.is_bare, broken.strays[0].devices) == ((), False, "c0")
    assert (well.problem, len(well.cards)) == (None, 1)


def test_totals_are_by_resource_and_tell_fragments_from_whole_cards() -> None:
    cards = [card(0), card(1), replace(card(2), resource=XE)]
    view = look(card_node("n", *cards), a=[use("main", 0, 0)], b=[use("main", 1, 1)])
    assert view.totals == (
        TotalView(
            I915, 2, 0, 4, 2, largest_tiles=1, largest_millicores=1000, largest_memory_bytes=8, tiles_held=2
        ),
        TotalView(XE, 1, 1, 2, 2, largest_tiles=2, largest_millicores=1000, largest_memory_bytes=8),
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], CardAccount]:
    """Up to three nodes, with holders by right and forged ones."""
    nodes = []
    book = CardAccount()
    for name in ("n0", "n1", "n2")[: draw(st.integers(1, 3))]:
        cards = [
            replace(
                card(
                    number,
                    tiles=draw(st.sampled_from((2, 1, 3))),
                    memory=draw(st.sampled_from((8, 8, 4, None))),
                    shares=draw(st.sampled_from((4, 4, 2, 1, 0))),
                ),
                resource=draw(st.sampled_from((I915, I915, I915, XE))),
                unassigned=draw(st.sampled_from((0, 0, 0, 0, 1))),
                health=Health(draw(st.sampled_from((None, None, None, None, "ill")))),
            )
            for number in range(draw(st.integers(0, 3)))
        ]
        closed = draw(
            st.sets(st.sampled_from(("gas-disable-card0", "gas-tile-disable-card1_gt0")), max_size=1)
        )
        nodes.append(card_node(name, *cards, labels=dict.fromkeys(closed, "true")))
        for pod in range(draw(st.integers(0, 3))):
            uses = draw(st.lists(_uses(), max_size=2, unique_by=lambda one: one.piece.name))
            book.hold(("ml", f"{name}-{pod}"), name, tuple(uses))
    for one in nodes:
        book.set_node(one)
    return nodes, book


@st.composite
def _uses(draw: st.DrawFn) -> Use:
    tiles = draw(st.sampled_from(((), (0,), (1,), (0, 1), (2,))))
    return use(
        "main",
        draw(st.sampled_from((0, 1, 2, 3))),
        *tiles,
        millicores=draw(st.sampled_from((0, 0, 400, 600))),
        memory_bytes=draw(st.sampled_from((0, 0, 3, 5))),
    )


@given(clusters())
def test_what_is_free_is_what_the_scheduler_has_to_give(cluster: tuple[list[Node], CardAccount]) -> None:
    nodes, book = cluster
    for shown in view_cluster(nodes, book).nodes:
        for one, state in zip(shown.cards, book.states(shown.name) or (), strict=True):
            free = {tile.tile for tile in one.tiles if tile.state == "free"}
            assert free == (state.tiles if state.room_for(Amounts(tiles=1)) else frozenset())
            assert one.millicores_free == _most(state, "millicores", 1000)
            assert one.memory_free_bytes in (None, _most(state, "memory_bytes", 8))
            assert one.shares_free == _most_holders(state)
            assert one.is_free == (state == _whole(book, shown.name, one) and bool(free))
            event(" ".join(sorted({tile.state for tile in one.tiles})))


def _takes(state: CardState, *needs: ContainerNeed) -> bool:
    return fit_pods((state,), [CardNeeds((one,)) for one in needs]).holds is not None


def _most(state: CardState, name: str, limit: int) -> int:
    """By trying: the most that one more pod gets of the card, shared or with one tile."""
    amounts = (Amounts(**{name: most, "tiles": tiles}) for most in range(limit, 0, -1) for tiles in (0, 1))
    return next(
        (
            getattr(each, name)
            for each in amounts
            if _takes(state, ContainerNeed("a", state.resource, 1, each))
        ),
        0,
    )


def _most_holders(state: CardState) -> int:
    """By trying: how many more pods the card takes, all for a tile or all for a share."""
    kinds = (ContainerNeed("a", state.resource, 1, Amounts(tiles=tiles)) for tiles in (0, 1))
    return max(next(n for n in range(9, -1, -1) if _takes(state, *[kind] * n)) for kind in kinds)


@given(clusters())
def test_totals_add_up(cluster: tuple[list[Node], CardAccount]) -> None:
    nodes, book = cluster
    view = view_cluster(nodes, book)
    for total in view.totals:
        shown = [one for node in view.nodes for one in node.cards if one.resource == total.resource]
        states = [tile.state for one in shown for tile in one.tiles]
        parts = ("free", "held", "shared", "blocked", "closed", "contested")
        assert {name: getattr(total, f"tiles_{name}") for name in parts} == {
            name: sum(state == name for state in states) for name in parts
        }
        assert total.tiles == len(states)
        assert total.largest_millicores == max(one.millicores_free for one in shown)


def _whole(book: CardAccount, name: str, of: CardView) -> object:
    """The card as it is when all have ended; no card where containers have it that nobody assigned it to."""
    found = next(state for state in book.states_in_the_end(name) or () if state.id == of.id)
    return found if found.is_open and len(found.tiles) == found.tile_count and not of.unassigned else None


@given(clusters())
def test_the_most_that_is_free_on_one_card_fits_and_no_more_does(
    cluster: tuple[list[Node], CardAccount],
) -> None:
    nodes, book = cluster

    def fits(resource: str, **each: int) -> bool:
        needs = CardNeeds((ContainerNeed("main", resource, 1, Amounts(**each)),))
        return any(fit_pods(book.states(one.name) or (), [needs]).holds for one in nodes)

    for total in view_cluster(nodes, book).totals:
        for name, most in (
            ("tiles", total.largest_tiles),
            ("millicores", total.largest_millicores),
            ("memory_bytes", total.largest_memory_bytes or 0),
        ):
            more = {name: most + 1}
            assert not fits(total.resource, **more)
            assert not fits(total.resource, **{"tiles": 1, **more})
            if most:
                exactly = {name: most}
                assert fits(total.resource, **exactly) or fits(total.resource, **{"tiles": 1, **exactly})


@given(clusters())
def test_conflicts_are_shown_exactly_where_the_scheduler_would_not_let_a_pod_go(
    cluster: tuple[list[Node], CardAccount],
) -> None:
    nodes, book = cluster
    for shown in view_cluster(nodes, book).nodes:
        closed = {one.id for one in shown.cards if one.health != "Healthy" or not one.in_service}
        gone = {stray.container.split("/")[1] for stray in shown.strays}
        for pod in {pod for pod, _, _ in book.holders(shown.name)}:
            mine = [one for one in shown.cards if any(_pod_of(h.container) == pod for h in one.holders)]
            is_hindered = any(one.conflicts or one.id in closed for one in mine) or pod[1] in gone
            if not is_hindered:
                assert book.still_fits(pod)
        for one in shown.cards:
            event("conflict" if one.conflicts else "peace")
            if one.conflicts and one.holders:
                assert not all(book.still_fits(_pod_of(holder.container)) for holder in one.holders)


def _pod_of(container: str) -> tuple[str, str]:
    namespace, name, _ = container.split("/")
    return namespace, name


def test_a_pod_deleted_by_force_is_shown_by_its_name_and_as_lingering() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    node = card_node("n", card(0))
    state.set_node(node)
    text = render_own(Assignment({"main": {I915: (unit(card(0).id, 1),)}}))
    running = fakes.pod("p", uid="old", on="n", annotations={ASSIGNMENT_ANNOTATION: text})
    state.set_pod(replace(running, grace_s=9_000_000_000))
    state.remove_pod(running.key, 100.0)
    told = parse_lingering(render_lingering(state.lingering()))
    assert told == tuple(state.lingering())
    other = SchedulerState(Scheme(), GATE_PREFIX)
    other.set_node(node)
    for gone in told:
        other.cluster.cards.hold(gone.key, gone.node, gone.uses)
    views = [view_cluster([node], one.cluster.cards) for one in (state, other)]
    assert views[0] == views[1]
    (holder,) = views[0].nodes[0].cards[0].holders
    assert (holder.container, holder.tiles, holder.is_lingering) == ("ml/p/main", (1,), True)
