"""The pods of examples/pods are what the scheduler reads them as."""

from pathlib import Path

import pytest

from accelet.assignments.gas import CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.cards.needs import CARD_RESOURCES, Amounts, CardNeeds, ContainerNeed, read_needs
from tests.example_pods import EXAMPLES, example_pods

SHARING = (Path(__file__).parents[3] / "docs" / "sharing.md").read_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_asks_for_parts_and_forges_nothing(path: Path) -> None:
    for raw in example_pods(path):
        pod = parse_pod(raw)
        asked = {name for container in pod.all_containers for name in container.limits}
        assert asked & {"gpu.intel.com/tiles", "gpu.intel.com/millicores", "gpu.intel.com/memory.max"}
        protected = {ASSIGNMENT_ANNOTATION, CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION}
        assert not protected & pod.annotations.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_page_on_sharing_leads_to_the_example(path: Path) -> None:
    assert f"(../examples/pods/{path.name})" in SHARING


def as_admitted(path: Path) -> Pod:
    """The one pod of an example with the card that the gate policy adds."""
    (raw,) = example_pods(path)
    for container in raw["spec"].get("initContainers", []) + raw["spec"]["containers"]:
        limits = container.get("resources", {}).get("limits")
        if limits and not limits.keys() & set(CARD_RESOURCES):
            limits[CARD_RESOURCES[0]] = 1
    return parse_pod(raw)


def need(cards: int = 1, *, name: str = "main", **each: int) -> ContainerNeed:
    return ContainerNeed(name, CARD_RESOURCES[0], cards, Amounts(**each))


READ = {
    "one-tile": CardNeeds((need(tiles=1),)),
    "half-a-card": CardNeeds((need(millicores=500),)),
    "memory": CardNeeds((need(millicores=200, memory_bytes=8 << 30),)),
    "whole-card": CardNeeds((need(tiles=2),), allowed=frozenset(f"card{n}" for n in range(4))),
    "two-linked-cards": CardNeeds((need(2, tiles=1),), is_linked=True),
    "single-numa": CardNeeds((need(2, tiles=2),), is_single_numa=True),
    "same-card": CardNeeds(
        (need(name="decode", millicores=300), need(name="infer", millicores=500, memory_bytes=4 << 30)),
        same_card=frozenset(("decode", "infer")),
    ),
    "deployment": CardNeeds((need(tiles=1),)),
    "gang": CardNeeds((need(tiles=2),)),
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_scheduler_reads_what_the_example_says(path: Path) -> None:
    assert read_needs(as_admitted(path)) == READ[path.stem]
