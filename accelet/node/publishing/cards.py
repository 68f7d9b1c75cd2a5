"""Publishes the cards of all resources that follow assignments: on the Node, and in a feature file."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from accelet.assignments.nodecards import NodeCard
from accelet.node.metrics import NodeMetrics
from accelet.node.publishing.featurefile import FeatureFile

if TYPE_CHECKING:
    from accelet.node.publishing.cardpublisher import CardPublisher


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
        self._node_name, self._list_sources, self._metrics = node_name, list_sources, metrics
        self._is_paused = True
        self._made_publisher: CardPublisher | None = None
        self.features = FeatureFile(root, self._list_cards, failed=metrics.feature_file_failures.inc)

    @property
    def publisher(self) -> "CardPublisher":
        """Publishes on the Node; made when it is first asked for."""
        if self._made_publisher is None:
            # Agents that need no API server do without what it takes to write to a Node.
            from accelet.node.publishing.cardpublisher import CardPublisher  # noqa: PLC0415

            self._made_publisher = CardPublisher(
                self._node_name,
                self._list_cards_and_holders,
                wrote=lambda what: self._metrics.node_writes.labels(what).inc(),
                failed=self._metrics.node_write_failures.inc,
            )
        return self._made_publisher

    def pause(self) -> None:
        """The resources are being changed."""
        self._is_paused = True

    def resume(self, *, is_on_node: bool, feature_file: str | None) -> None:
        """The resources are there again; `feature_file` is a path on the host, None for no file."""
        self._is_paused = False
        if is_on_node or self._made_publisher is not None:
            self.publisher.switch(is_on=is_on_node)
        self.features.set_place(feature_file)
        self.refresh()

    def refresh(self) -> None:
        """The cards, or who holds them, may be others."""
        if self._made_publisher is not None:
            self._made_publisher.refresh()
        self.features.refresh()

    def refresh_after_kubelet(self) -> None:
        """The kubelet has started anew, and may have written its Node over."""
        if self._made_publisher is not None:
            self._made_publisher.refresh_after_kubelet()

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
