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

    def report_health(self, resource: str, health: Mapping[str, str | None]) -> None:
        """Has Events on the Node say which of this resource's units fell ill, and which are well again.

        `health` says of each unit that there is why it is ill, None for a well one. Never blocks or fails.
        """
        ...

    def forget_health(self, resource: str | None = None) -> None:
        """Nothing more is said of the units of this resource, None for all: nobody looks at them."""
        ...
