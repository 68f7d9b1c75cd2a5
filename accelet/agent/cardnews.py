"""Tells the cards of all resources that follow assignments: on the Node, and in a feature file."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from accelet.agent.config import AgentConfig
from accelet.agent.resource import ServedResource
from accelet.assignments.nodecards import NodeCard
from accelet.node.cardpublisher import CardPublisher
from accelet.node.featurefile import FeatureFile
from deviceplugin.metrics import Metrics

ListServed = Callable[[], Iterable[ServedResource]]


class CardNews:
    """What `publisher` and `features` tell while these run. Nothing is told before `take`, nor while held.

    A resource that is about to be served again has no cards for a moment, of which nobody is to hear.
    """

    def __init__(self, node_name: str, root: Path, list_served: ListServed, metrics: Metrics) -> None:
        self._list_served = list_served
        self._is_held = True
        self.publisher = CardPublisher(
            node_name,
            self._list_cards_and_holders,
            wrote=lambda what: metrics.node_writes.labels(what).inc(),
            failed=metrics.node_write_failures.inc,
        )
        self.features = FeatureFile(root, self._list_cards, failed=metrics.feature_file_failures.inc)

    def hold(self) -> None:
        """The resources are being changed."""
        self._is_held = True

    def take(self, config: AgentConfig) -> None:
        """The resources are those of `config`."""
        self._is_held = False
        self.publisher.switch(is_on=config.publish_cards)
        self.features.set_place(config.nfd_features)
        self.look()

    def look(self) -> None:
        """The cards, or who holds them, may be others."""
        self.publisher.look()
        self.features.look()

    def _list_cards(self) -> Sequence[NodeCard] | None:
        if self._is_held:
            return None
        cards: list[NodeCard] = []
        for served in sorted(self._list_served(), key=lambda served: served.config.name):
            own = served.list_cards()
            if own is None:
                return None
            cards += own
        return tuple(cards)

    def _list_cards_and_holders(self) -> Sequence[NodeCard] | None:
        is_known = all(served.knows_holders for served in self._list_served())
        return self._list_cards() if is_known else None
