"""Nodes on which kube-scheduler or the API server would not have a pod that was to go there."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from accelet.scheduler.gangs.grouping import GangKey

EXCLUDED_FOR_S = 1800.0
MOST_EXCLUDED = 16
"""So many nodes are tried. Who is refused everywhere is refused for what no other node changes."""


@dataclass(slots=True)
class Exclusions:
    """Which gang is not to use which nodes, for a while: plain, and told the time."""

    _until_s: dict[GangKey, dict[str, float]] = field(default_factory=dict)

    def add(self, gang: GangKey, node: str, now_s: float) -> bool:
        """Whether the gang does not use this node now; False where it has tried enough others."""
        nodes = self._until_s.setdefault(gang, {})
        if node not in nodes and len(nodes) >= MOST_EXCLUDED:
            return False
        nodes[node] = now_s + EXCLUDED_FOR_S
        return True

    def of(self, gang: GangKey) -> frozenset[str]:
        return frozenset(self._until_s.get(gang, ()))

    def end(self, now_s: float) -> Iterator[GangKey]:
        """Forgets what has been long ago, and says of which gangs."""
        for gang, nodes in list(self._until_s.items()):
            left = {node: until_s for node, until_s in nodes.items() if until_s > now_s}
            if len(left) < len(nodes):
                self._until_s[gang] = left
                yield gang
            if not left:
                del self._until_s[gang]

    def next_end_s(self, now_s: float) -> float | None:
        """In how many seconds the next one ends; None if there is none."""
        ends_s = (until_s for nodes in self._until_s.values() for until_s in nodes.values())
        return min((max(0.0, end_s - now_s) for end_s in ends_s), default=None)
