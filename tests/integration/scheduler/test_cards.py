"""Whole runs in which pods get cards and tiles, written in the one patch that releases them."""

from accelet.assignments.gas import CARDS_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.fakeapi import Answer, Fault
from accelet.scheduler.gangs.grouping import CARDS_GATE
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.world import CARD, World, pinned_node
from tests.unit.scheduler.card_values import card

FIRST, SECOND = "0000-00-00.0", "0000-01-00.0"


def tile(unit: str, number: int) -> dict[str, object]:
    return {"main": {CARD: [{"unit": unit, "tiles": [number]}]}}


async def test_one_patch_says_the_node_the_card_and_the_tile_and_lifts_the_gate(
    world: World, start: Start
) -> None:
    world.add_card_node("n", card(0))
    async with start():
        world.add_card_pod("p", tiles=1)
        await eventually(lambda: world.node_of("p") == "n" and not world.plans())
        await eventually(lambda: f"on n: main has {FIRST} tile 0" in world.notes())
    assert world.assigned("p") == tile(FIRST, 0)
    patches = [
        seen.body
        for seen in world.api.seen
        if seen.method == "PATCH" and seen.path.endswith("/pods/p") and not seen.query.get("dryRun")
    ]
    (patch,) = patches
    assert patch["spec"]["schedulingGates"] == []
    assert ASSIGNMENT_ANNOTATION in patch["metadata"]["annotations"]
    assert pinned_node(world.pod("p")) == "n"


async def test_pods_that_arrive_together_are_placed_each_by_itself_and_share_no_tile(
    world: World, start: Start
) -> None:
    world.add_card_node("n", card(0), card(1))
    async with start():
        for number in range(5):
            world.add_card_pod(f"p{number}", tiles=1)
        await eventually(lambda: len(world.gated()) == 1 and not world.plans())
        await eventually(lambda: any("waiting: needs 1 node, the cluster has 0" in n for n in world.notes()))
        (left,) = world.gated()
        placed = [f"p{number}" for number in range(5) if f"p{number}" != left]
        given = [str(world.assigned(name)) for name in placed]
        assert len(set(given)) == 4
        world.end_pod(placed[2])
        await eventually(lambda: world.node_of(left) == "n")
    assert str(world.assigned(left)) == given[2]


async def test_what_a_pod_brings_along_is_no_assignment(world: World, start: Start) -> None:
    world.add_card_node("n", card(0), card(1))
    forged = {ASSIGNMENT_ANNOTATION: "whatever", CARDS_ANNOTATION: "card1"}
    async with start():
        world.add_card_pod("thief", forged, tiles=1)
        await eventually(lambda: world.node_of("thief") == "n")
    assert world.assigned("thief") == tile(FIRST, 0)
    assert CARDS_ANNOTATION not in world.pod("thief")["metadata"]["annotations"]


async def test_a_plan_that_was_interrupted_goes_on_with_the_cards_it_had(world: World, start: Start) -> None:
    world.add_card_node("n", card(0), card(1))
    # Released for the moment is nobody, so that the plan is all there is.
    refusal = Fault(Answer(503), method="PATCH", path="/pods/", times=10_000)
    world.api.faults.append(refusal)
    async with start(token="first"):
        world.add_card_pod("p", tiles=1)
        await eventually(lambda: bool(world.plans()) and refusal.hits > 0)
    (written,) = world.plans()
    refusal.times = 0
    async with start(token="second"):
        await eventually(lambda: world.node_of("p") == "n")
    assert ASSIGNMENT_ANNOTATION not in written["metadata"].get("annotations", {})
    assert world.pod("p")["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] in str(
        written["data"]["plan.json"].replace("\\", "")
    )


async def test_a_card_that_falls_ill_under_a_plan_is_replaced(world: World, start: Start) -> None:
    world.add_card_node("n", card(0), card(1))
    refusal = Fault(Answer(503), method="PATCH", path="/pods/", times=10_000)
    world.api.faults.append(refusal)
    async with start():
        world.add_card_pod("p", tiles=1)
        await eventually(lambda: bool(world.plans()))
        world.publish("n", card(0, ill="it is hot"), card(1))
        await eventually(lambda: SECOND in str(world.plans()), within_s=20)
        refusal.times = 0
        await eventually(lambda: world.node_of("p") == "n", within_s=20)
    assert world.assigned("p") == tile(SECOND, 0)


async def test_a_card_that_vanishes_after_release_makes_its_pod_be_made_anew(
    world: World, start: Start
) -> None:
    world.add_card_node("n", card(0), card(1))
    world.is_binding = False
    spec = {
        "containers": [
            {
                "name": "main",
                "resources": {
                    kind: {"nvidia.com/gpu": "0", CARD: "1", "gpu.intel.com/tiles": "1"}
                    for kind in ("requests", "limits")
                },
            }
        ]
    }
    async with start(stranded_after_s=0.2):
        world.add_job("j", 1, spec=spec, gates=(CARDS_GATE,))
        await eventually(lambda: len(world.pods("j")) == 1 and not world.gated("j"))
        first = world.pods("j")[0]["metadata"]["uid"]
        world.publish("n", card(1))
        await eventually(lambda: [p["metadata"]["uid"] for p in world.pods("j")] not in ([first], []))
        world.is_binding = True
        await eventually(lambda: world.is_bound("j", 1))
    assert world.assigned("j-0") == tile(SECOND, 0)


async def test_what_never_fits_is_told_and_stops_nobody(world: World, start: Start) -> None:
    world.add_card_node("n", card(0))
    async with start():
        world.add_card_pod("huge", tiles=4)
        world.add_card_pod("fits", tiles=1)
        await eventually(lambda: world.node_of("fits") == "n")
        await eventually(
            lambda: any(
                n == "waiting: no node ever has one i915 card with 4 tiles; "
                "nearest is n with 1 card of up to 2 tiles and 64 GiB"
                for n in world.notes()
            )
        )
    assert world.gated() == ["huge"]
