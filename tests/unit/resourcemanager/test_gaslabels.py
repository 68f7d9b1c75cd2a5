"""The labels of GPU Aware Scheduling: what is written is what it reads."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Health, UnitId
from accelet.assignments.gaslabels import render_features, split_value
from accelet.assignments.nodecards import NodeCard

R = "gpu.intel.com/i915"
VALUE = re.compile(r"(?:[0-9A-Za-z](?:[0-9A-Za-z_.-]{0,61}[0-9A-Za-z])?)?")
"""A label's value, Kubernetes 1.36, apimachinery/pkg/util/validation."""


def node(*numbers: int, numa: int | None = None) -> list[NodeCard]:
    return [
        NodeCard(UnitId(f"u{n}"), R, card=f"card{n}", tiles=2, memory_bytes=2**34, numa_node=numa)
        for n in numbers
    ]


def labels(text: str) -> dict[str, str]:
    assert text == "" or text.endswith("\n")
    pairs = [line.split("=", 1) for line in text.splitlines()]
    assert len({name for name, _ in pairs}) == len(pairs)
    return {pair[0]: pair[1] for pair in pairs}


def joined(found: dict[str, str], name: str) -> str:
    """A value with its continuations, as GPU Aware Scheduling puts them together."""
    value, index = found.get(name, ""), 2
    while (more := found.get(f"{name}{index}")) is not None:
        assert more.startswith("Z")
        value, index = value + more[1:], index + 1
    return value


def test_two_sockets_of_two_cards() -> None:
    cards = [*node(0, 1, numa=0), *node(2, 3, numa=1)]
    assert render_features(cards) == (
        "gpu.intel.com/tiles=8\n"
        "gpu.intel.com/millicores=4000\n"
        "gpu.intel.com/memory.max=68719476736\n"
        "gpu.intel.com/cards=card0.card1.card2.card3\n"
        "gpu.intel.com/gpu-numbers=0.1.2.3\n"
        "gpu.intel.com/numa-gpu-map=0-0.1_1-2.3\n"
    )


def test_memory_that_is_not_known_has_no_label() -> None:
    (first,), (second,) = node(0), node(1)
    unknown = replace(first, memory_bytes=None)
    assert "memory.max" not in render_features([unknown])
    assert f"memory.max={2**34}\n" in render_features([unknown, second])


def test_without_cards_there_are_no_labels_and_without_numa_nodes_no_map() -> None:
    assert render_features([]) == ""
    assert "numa-gpu-map" not in render_features(node(0))


def test_cards_that_are_sick_or_have_no_number_are_left_out() -> None:
    sick, nameless = node(0, 1)
    left_out = [replace(sick, health=Health("it is sick")), replace(nameless, card=None)]
    assert render_features([*left_out, *node(2)]) == render_features(node(2))


def test_order_is_that_of_a_folder() -> None:
    found = labels(render_features(node(10, 2, 1, numa=0)))
    assert found["gpu.intel.com/gpu-numbers"] == "1.10.2"
    assert found["gpu.intel.com/numa-gpu-map"] == "0-1.10.2"


def test_long_value_is_cut_after_its_last_letter_or_digit_and_continued() -> None:
    numbers = ".".join(str(number) for number in range(40))
    first, second = split_value(numbers)
    assert first == "0.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22.23.2"
    assert second == "Z4.25.26.27.28.29.30.31.32.33.34.35.36.37.38.39"
    found = labels(render_features(node(*range(40))))
    assert (found["gpu.intel.com/gpu-numbers"], found["gpu.intel.com/gpu-numbers2"]) == tuple(
        split_value(".".join(sorted(map(str, range(40)))))
    )
    assert found["gpu.intel.com/cards"] == "card0.card1.card10.card11.card12.card13.card14.card15.card16.ca"
    assert "gpu.intel.com/cards2" not in found


cards = st.builds(
    NodeCard,
    id=st.just(UnitId("u")),
    resource=st.sampled_from([R, "gpu.intel.com/xe", "gpu.example.com/flex"]),
    card=st.none() | st.integers(0, 99_999).map("card{}".format),
    tiles=st.integers(1, 8),
    memory_bytes=st.none() | st.integers(0, 2**40),
    numa_node=st.none() | st.integers(0, 1023),
    health=st.sampled_from([Health(), Health("it is sick")]),
)


@given(st.lists(cards, max_size=60, unique_by=lambda card: card.card))
def test_labels_are_valid_and_say_every_usable_card(node: list[NodeCard]) -> None:
    found = labels(render_features(node))
    usable = [card for card in node if card.health.is_healthy and card.card is not None]
    assert all(VALUE.fullmatch(value) for value in found.values())
    for domain in {card.resource.partition("/")[0] for card in usable}:
        own = [card for card in usable if card.resource.startswith(f"{domain}/")]
        numbers = {str(card.card).removeprefix("card") for card in own}
        assert set(joined(found, f"{domain}/gpu-numbers").split(".")) == numbers
        assert found[f"{domain}/millicores"] == str(1000 * len(own))
        assert found[f"{domain}/tiles"] == str(sum(card.tiles for card in own))
        groups = joined(found, f"{domain}/numa-gpu-map")
        said = {
            (int(number), int(group.split("-")[0]))
            for group in groups.split("_")
            if group
            for number in group.split("-")[1].split(".")
        }
        placed = [card for card in own if card.numa_node is not None]
        assert said == {(int(str(card.card)[4:]), card.numa_node) for card in placed}
    assert bool(found) == bool(usable)
