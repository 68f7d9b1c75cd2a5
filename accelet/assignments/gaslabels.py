"""A node's cards in the labels that GPU Aware Scheduling reads, as a feature file of Node Feature Discovery.

The grammar is that of intel-device-plugins-for-kubernetes v0.32, cmd/internal/labeler.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from accelet.assignments.nodecards import NodeCard, extended_capacity

_LONGEST = 63
"""Characters of a label's value."""

_CONTINUES = "Z"
"""What a continuation begins with: a label's value must not begin with a dot."""

_ENDS_IN_ALPHANUMERIC = re.compile(r".*[0-9A-Za-z]", re.DOTALL)


def render_features(cards: Iterable[NodeCard]) -> str:
    """The feature file: a line `name=value` for each label, the domain of the cards' resources before it.

    Only of healthy cards that have a DRM name: whoever reads these labels has no other way to avoid a card.
    """
    domains: dict[str, list[NodeCard]] = defaultdict(list)
    for card in cards:
        if card.health.is_healthy and card.card is not None:
            domains[card.resource.partition("/")[0]].append(card)
    labels = {
        name: value for domain in sorted(domains) for name, value in _labels(domain, domains[domain]).items()
    }
    return "".join(f"{name}={value}\n" for name, value in labels.items())


def split_value(value: str) -> tuple[str, ...]:
    """A value in parts that fit into labels, each but the first with a mark before it."""
    parts: list[str] = []
    while True:
        mark = _CONTINUES if parts else ""
        room = _LONGEST - len(mark)
        if len(value) <= room:
            return (*parts, mark + value)
        fitting = _ENDS_IN_ALPHANUMERIC.match(value[:room])
        part = value[:room] if fitting is None else fitting.group()
        parts.append(mark + part)
        value = value[len(part) :]


def _labels(domain: str, cards: Sequence[NodeCard]) -> Mapping[str, str]:
    # In the order of a folder's listing, as the labels have always been: card10 is before card2.
    names = sorted(card.card for card in cards if card.card is not None)
    numbers = [name.removeprefix("card") for name in names]
    nodes: dict[int, list[str]] = defaultdict(list)
    for card in sorted(cards, key=lambda card: card.card or ""):
        if card.numa_node is not None:
            nodes[card.numa_node].append((card.card or "").removeprefix("card"))
    labels = {name: str(amount) for name, amount in extended_capacity(cards).items()}
    labels[f"{domain}/cards"] = split_value(".".join(names))[0]
    labels |= _continued(f"{domain}/gpu-numbers", ".".join(numbers))
    if nodes:
        grouped = "_".join(f"{node}-{'.'.join(nodes[node])}" for node in sorted(nodes))
        labels |= _continued(f"{domain}/numa-gpu-map", grouped)
    return labels


def _continued(name: str, value: str) -> Iterator[tuple[str, str]]:
    """`name`, `name2`, `name3`, … for as many labels as the value takes."""
    for index, part in enumerate(split_value(value), start=1):
        yield (name if index == 1 else f"{name}{index}"), part
