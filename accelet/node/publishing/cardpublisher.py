"""Keeps the node's Node saying which cards there are and how much of them pods may ask for."""

import asyncio
from collections.abc import Callable, Sequence
from random import uniform

from accelet.assignments.nodecards import NodeCard, extended_capacity
from accelet.kube.apiresources import NODES, ObjectApi
from accelet.kube.errors import ApiError, KubeError
from accelet.kube.nodes import parse_node
from accelet.node.publishing.nodepatches import NodePatches, plan_patches
from accelet.runtime.backoff import Backoff
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.waiting import left_s, wait_for_hint

LOOK_S = 60.0
"""How often the Node is read without any change of ours: for what others have done to it."""

REST_S = 1.0
"""From one change of the Node to the next: a storm of pods is to be none of writes. The first is at once."""

REFRESH_AFTER_KUBELET_S = 5.0
"""A kubelet that starts may set the Node's amounts to 0, which takes it a moment."""

_log = Log(__name__)

ListCards = Callable[[], Sequence[NodeCard] | None]
"""The cards as they are now; None while not all of them are known."""


class CardPublisher:
    """Publishes while `run` runs and it is switched on.

    What is published stays when the process ends: an agent that is replaced must not make the scheduler
    believe that the cards are gone. Where nobody starts again, it is for whoever removes the agent to clear.
    """

    def __init__(
        self,
        node_name: str,
        list_cards: ListCards,
        *,
        wrote: Callable[[str], None],
        failed: Callable[[], None],
        look_s: float = LOOK_S,
        rest_s: float = REST_S,
    ) -> None:
        """`wrote` is called with `annotation` or `capacity` for each write, `failed` for each failure."""
        self._node_name = node_name
        self._list_cards = list_cards
        self._count_write = wrote
        self._count_failure = failed
        self._look_s = look_s
        self._rest_s = rest_s
        self._is_on = False
        self._is_clearing = False
        self._wake = asyncio.Event()
        self._published: Sequence[NodeCard] | None = None
        self._names: frozenset[str] = frozenset()
        self._due_s = 0.0
        self._failing = Failing(
            _log,
            "cannot publish the cards; what the Node says of them stays",
            "publishes the cards again",
        )

    def switch(self, *, is_on: bool) -> None:
        """Publishes from here on, or removes once what was published."""
        if is_on != self._is_on:
            self._is_on, self._is_clearing = is_on, not is_on
            self._published = None
            self._wake.set()

    def refresh(self) -> None:
        """The cards may have changed; costs nothing where they have not."""
        if self._is_on:
            self._wake.set()

    def refresh_after_kubelet(self) -> None:
        """A kubelet has started: what it did to the Node is to be seen soon."""
        self._due_s = min(self._due_s, asyncio.get_running_loop().time() + REFRESH_AFTER_KUBELET_S)
        self.refresh()

    async def run(self, api: ObjectApi) -> None:
        """Publishes for ever."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(first_s=self._rest_s, most_s=self._look_s)
        while True:
            self._wake.clear()
            cards, is_last = self._wanted(), not self._is_on
            if cards is not None and (cards != self._published or loop.time() >= self._due_s):
                # Before the requests: a kubelet that starts meanwhile has the Node looked at sooner.
                self._due_s = loop.time() + self._look_s * uniform(0.9, 1.1)  # noqa: S311  no secret
                try:
                    has_written = await self._publish(api, cards)
                except KubeError as error:
                    self._due_s = loop.time()
                    self._count_failure()
                    self._failing.failed(error)
                    # The agents of a cluster must not all ask at once.
                    await asyncio.sleep(max(backoff.wait_s, _patience_s(error)) * uniform(0.9, 1.1))  # noqa: S311  as above
                    backoff = backoff.failed()
                    continue
                backoff = backoff.worked()
                self._failing.worked()
                self._published = cards
                self._is_clearing = self._is_clearing and not is_last
                if has_written:
                    await asyncio.sleep(self._rest_s)
                    continue
            await wait_for_hint(self._wake, left_s(None if cards is None else self._due_s, loop.time()))

    def _wanted(self) -> Sequence[NodeCard] | None:
        """What the Node is to say; None for what it says."""
        if self._is_on:
            return self._list_cards()
        return () if self._is_clearing else None

    async def _publish(self, api: ObjectApi, cards: Sequence[NodeCard]) -> bool:
        """Reads the Node and changes what differs, if anything does; may be repeated."""
        node = parse_node(await api.get(NODES, None, self._node_name))
        patches = plan_patches(node, cards, self._names)
        self._names |= extended_capacity(cards).keys()
        if patches.metadata is not None:
            await api.patch(NODES, None, self._node_name, patches.metadata, "merge")
            self._count_write("annotation")
        if patches.status is not None:
            await api.patch(NODES, None, self._node_name, patches.status, "merge", subresource="status")
            self._count_write("capacity")
            _log.info("changed what the Node offers of cards", amounts=extended_capacity(cards))
        return patches != NodePatches()


def _patience_s(error: KubeError) -> float:
    """How long the API server asks to be left alone."""
    asked_s = error.retry_after_s if isinstance(error, ApiError) else None
    return min(asked_s or 0.0, LOOK_S)
