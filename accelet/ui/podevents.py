"""Asks the API server for the Events of one pod, when a browser wants to see them."""

import asyncio
from typing import Final

from accelet.kube.errors import KubeError
from accelet.kube.objects import ObjectKey
from accelet.kube.served import ListApi
from accelet.overview.bounds import MOST_SENTENCE, cut
from accelet.overview.podevents import EVENTS_OF_PODS, EventsBox, box_events, select_events

MOST_ASKED: Final = 4
"""So many browsers are answered at the same time; others wait for their turn."""

ANSWER_S: Final = 10.0
"""So long may an answer take, the wait for its turn included."""


class PodEvents:
    """Asks with the person's own kubeconfig, and keeps nothing."""

    def __init__(self, api: ListApi, answer_s: float = ANSWER_S) -> None:
        self._api, self._answer_s = api, answer_s
        self._turns = asyncio.Semaphore(MOST_ASKED)

    async def tell(self, key: ObjectKey) -> EventsBox:
        """The Events of the pod, or why they are not known."""
        namespace, pod = key
        try:
            async with asyncio.timeout(self._answer_s), self._turns:
                page = await self._api.list_page(EVENTS_OF_PODS, namespace, select_events(pod))
        except TimeoutError:
            return EventsBox(problem=f"the API server did not answer within {self._answer_s:g} s")
        except KubeError as error:
            return EventsBox(problem=cut(str(error), MOST_SENTENCE))
        return box_events(page.items)
