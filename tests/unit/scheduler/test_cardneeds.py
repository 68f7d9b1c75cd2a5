"""What pods ask of cards: read as GPU Aware Scheduling does, or refused with a sentence."""

from fractions import Fraction

import pytest

from accelet.kube.pods import Container, Pod
from accelet.scheduler.cards.needs import (
    Amounts,
    CardNeeds,
    ContainerNeed,
    Successor,
    read_needs,
)
from accelet.scheduler.errors import NeedsError
from tests.fakes.pods import pod

I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"


def container(name: str = "a", *, is_sidecar: bool = False, **amounts: int) -> Container:
    """Amounts by the last part of their names: `i915`, `tiles`, `millicores`, `memory`."""
    names = {"memory": "gpu.intel.com/memory.max"}
    asked = {names.get(name, f"gpu.intel.com/{name}"): amount for name, amount in amounts.items()}
    return Container(name, requests=asked, limits=asked, is_sidecar=is_sidecar)


def refusal(of: Pod) -> str:
    with pytest.raises(NeedsError) as refused:
        read_needs(of)
    return str(refused.value)


def test_a_pod_without_cards_needs_none() -> None:
    assert read_needs(pod("p", Container("a"))) is None


def test_amounts_are_shared_out_among_the_cards_and_rounded_up() -> None:
    needs = read_needs(pod("p", container(i915=3, tiles=6, millicores=1000, memory=10)))
    assert needs == CardNeeds((ContainerNeed("a", I915, 3, Amounts(2, 334, 4)),))


def test_a_number_of_cards_alone_is_plain() -> None:
    assert (needs := read_needs(pod("p", container(i915=2))))
    assert needs.is_plain
    assert (needs := read_needs(pod("p", container(i915=1, tiles=1))))
    assert not needs.is_plain
    assert (needs := read_needs(pod("p", container(i915=1), annotations={"gas-deny": "card0"})))
    assert not needs.is_plain


def test_configured_resources_are_cards_too() -> None:
    asked = {"gpu.intel.com/max": 1, "gpu.intel.com/tiles": 1}
    needs = read_needs(pod("p", Container("a", requests=asked, limits=asked)), ["gpu.intel.com/max"])
    assert needs == CardNeeds((ContainerNeed("a", "gpu.intel.com/max", 1, Amounts(1)),))


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (
            pod("p", container(tiles=1)),
            (
                "container a asks for gpu.intel.com/tiles without a card: "
                "add gpu.intel.com/i915: 1 or gpu.intel.com/xe: 1"
            ),
        ),
        (
            pod("p", container(i915=1, xe=1, tiles=1)),
            "container a asks for gpu.intel.com/i915 and gpu.intel.com/xe: one kind of card only",
        ),
        (
            pod("p", container(i915=2, tiles=3)),
            (
                "container a asks for 3 tiles of 2 cards: make it a multiple of 2, "
                "since each card gives as many as the others"
            ),
        ),
        (
            pod("p", container(i915=-1)),
            ("container a asks for -1 of gpu.intel.com/i915: write a whole number, which is not below 0"),
        ),
        (
            pod("p", Container("a", {I915: 1, "gpu.intel.com/millicores": Fraction(1, 2)})),
            (
                "container a asks for 1/2 of gpu.intel.com/millicores: "
                "write a whole number, which is not below 0"
            ),
        ),
        (
            pod("p", container(i915=1, tiles=10**9)),
            "container a asks for 1000000000 tiles of one card: no card has so many",
        ),
        (
            pod("p", container(i915=1), annotations={"gas-deny": "card0,../etc"}),
            'gas-deny has "../etc", which is no card; it reads card0,card1',
        ),
        (
            pod("p", container("a", i915=1), annotations={"gas-same-gpu": "a"}),
            'gas-same-gpu is "a": name two containers or more, separated by commas',
        ),
        (
            pod("p", container("a", i915=1), container("b", i915=2), annotations={"gas-same-gpu": "a,b"}),
            "gas-same-gpu names b, which asks for 2 cards, not one",
        ),
        (
            pod("p", container("a", i915=1), Container("b"), annotations={"gas-same-gpu": "a,b"}),
            'gas-same-gpu names "b", which is no container that asks for a card',
        ),
        (
            pod(
                "p",
                container("a", i915=1, tiles=1),
                container("b", i915=1),
                annotations={"gas-same-gpu": "a,b"},
            ),
            (
                "gas-same-gpu: some of the containers ask for tiles and some do not; "
                "a card is either divided into tiles or shared whole"
            ),
        ),
        (
            pod("p", container("a", i915=1), container("b", xe=1), annotations={"gas-same-gpu": "a,b"}),
            "gas-same-gpu names containers that ask for different kinds of cards",
        ),
        (
            pod("p", container(i915=3, tiles=3), annotations={"gas-allocate-xelink": "true"}),
            "gas-allocate-xelink: container a must ask for an even number of cards and as many tiles",
        ),
        (
            pod(
                "p",
                *(container(n, i915=1) for n in "ab"),
                annotations={"gas-same-gpu": "a,b", "gas-allocate-xelink": "yes"},
            ),
            "gas-same-gpu and gas-allocate-xelink contradict each other",
        ),
        (
            pod("p", container("b", i915=1), init=(container("a", i915=2),)),
            (
                "init container a asks for more of gpu.intel.com/i915 than container b, "
                "which the kubelet gives its devices to: ask for as much in both"
            ),
        ),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_sentence(of: Pod, said: str) -> None:
    assert refusal(of) == said


def test_cards_of_another_domain_do_not_come_with_these_parts() -> None:
    asked = {"example.com/gpu": 1, "gpu.intel.com/tiles": 1}
    with pytest.raises(NeedsError, match=r"asks for gpu.intel.com/tiles, but for cards of example.com"):
        read_needs(pod("p", Container("a", requests=asked, limits=asked)), ["example.com/gpu", I915])


def test_an_init_container_has_the_cards_of_who_inherits_its_devices() -> None:
    needs = read_needs(
        pod(
            "p",
            container("app", i915=2, tiles=4),
            init=(
                container("first", i915=1, tiles=1),
                container("sidecar", i915=1, tiles=1, is_sidecar=True),
                container("second", i915=1, tiles=2),
            ),
        )
    )
    assert needs is not None
    assert [need.name for need in needs.containers] == ["sidecar", "app"]
    assert needs.before == (Successor("first", "sidecar", 1, 1), Successor("second", "app", 1, 2))


def test_init_containers_without_an_heir_share_the_cards_of_the_largest() -> None:
    needs = read_needs(pod("p", Container("app"), init=(container("a", i915=1), container("b", i915=2))))
    assert needs is not None
    assert [need.name for need in needs.containers] == ["b"]
    assert needs.before == (Successor("a", "b", 1, 0),)


def test_who_has_an_heir_is_no_heir() -> None:
    init = (
        container("large", i915=2),
        container("sidecar", i915=2, is_sidecar=True),
        container("small", i915=1),
    )
    needs = read_needs(pod("p", Container("app"), init=init))
    assert needs is not None
    assert [need.name for need in needs.containers] == ["sidecar", "small"]
    assert needs.before == (Successor("large", "sidecar", 2, 0),)


def test_wishes_are_read_from_annotations() -> None:
    said = {
        "gas-allow": "card0, card1",
        "gas-deny": "card1",
        "gas-allocate-single-numa": "true",
        "gas-allocate-xelink": "anything",
    }
    needs = read_needs(pod("p", container(i915=2, tiles=2), annotations=said))
    assert needs is not None
    assert needs.allowed == frozenset(("card0", "card1"))
    assert needs.denied == {"card1"}
    assert needs.is_linked
    assert needs.is_single_numa


def test_more_cards_than_any_node_has_are_not_named() -> None:
    many = ",".join(f"card{number}" for number in range(2000))
    said = refusal(pod("p", container(i915=1), annotations={"gas-allow": many}))
    assert said == "gas-allow names 2,000 cards: no node has so many"


def test_false_says_no() -> None:
    said = {"gas-allocate-single-numa": "false", "gas-allocate-xelink": "false"}
    assert (needs := read_needs(pod("p", container(i915=2, tiles=3 * 2), annotations=said)))
    assert not needs.is_linked
    assert not needs.is_single_numa
