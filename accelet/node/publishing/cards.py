"""Publishes the cards of all resources that follow assignments: on the Node, and in a feature file."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from accelet.assignments.nodecards import NodeCard
from accelet.node.metrics import NodeMetrics
from accelet.node.publishing.cardpublisher import CardPublisher
from accelet.node.publishing.featurefile import FeatureFile


class CardSource(Protocol):
    """One resource with cards."""

    @property
    def name(self) -> str:
        """The resource's name."""
        ...

    @property
    def knows_holders(self) -> bool:
        """Whether it can be told which holders of the cards are assigned them."""
        ...

    def list_cards(self) -> Sequence[NodeCard] | None:
        """The cards that schedulers may assign parts of; None while they are not known."""
        ...


class CardPublishing:
    """What `publisher` and `features` publish while these run; nothing new before `resume` or once paused.

    A resource that is about to be served again has no cards for a moment, of which nobody is to hear.
    """

    def __init__(
        self,
        node_name: str,
        root: Path,
        list_sources: Callable[[], Iterable[CardSource]],
        metrics: NodeMetrics,
    ) -> None:
        self._list_sources = list_sources
        self._is_paused = True
        self.publisher = CardPublisher(
            node_name,
            self._list_cards_and_holders,
            wrote=lambda what: metrics.node_writes.labels(what).inc(),
            failed=metrics.node_write_failures.inc,
        )
        self.features = FeatureFile(root, self._list_cards, failed=metrics.feature_file_failures.inc)

    def pause(self) -> None:
        """The resources are being changed."""
        self._is_paused = True

    def resume(self, *, is_on_node: bool, feature_file: str | None) -> None:
        """The resources are there again; `feature_file` is a path on the host, None for no file."""
        self._is_paused = False
        self.publisher.switch(is_on=is_on_node)
        self.features.set_place(feature_file)
        self.refresh()

    def refresh(self) -> None:
        """The cards, or who holds them, may be others."""
        self.publisher.refresh()
        self.features.refresh()

    def _list_cards(self) -> Sequence[NodeCard] | None:
        if self._is_paused:
            return None
        cards: list[NodeCard] = []
        for source in sorted(self._list_sources(), key=lambda source: source.name):
            own = source.list_cards()
            if own is None:
                return None
            cards += own
        return tuple(cards)

    def _list_cards_and_holders(self) -> Sequence[NodeCard] | None:
        is_known = all(source.knows_holders for source in self._list_sources())
        return self._list_cards() if is_known else None
