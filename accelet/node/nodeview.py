"""What is known of this node's Node object from the API server, for those who only look."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class NodeView(Protocol):
    """The Node of this node; everything goes on without it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """As last read; none before the first time."""
        ...

    async def read(self) -> None:
        """Waits until the labels were read once, for ever if need be."""
        ...

    def report(self, resource: str, contradictions: Sequence[str]) -> None:
        """Has Events on the Node say what contradicts itself in this resource's hardware now.

        It replaces what was reported of the resource before. Never blocks and never fails.
        """
        ...

    def report_health(self, resource: str, ill: Mapping[str, str]) -> None:
        """Has Events on the Node say which of this resource's units fell ill, and which are well again.

        `ill` are those that are ill now, each with its reason. Never blocks and never fails.
        """
        ...
