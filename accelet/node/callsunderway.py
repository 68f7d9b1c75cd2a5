"""The calls of the kubelet that are being answered, so that a server ends after them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from accelet.runtime.waiting import wait_for_hint

QUIET_S: Final = 0.1
"""So long no call is under way before there are none: Allocate follows a preference after a millisecond."""

FINISH_S: Final = 6.0
"""The longest an end waits for calls. An Allocate takes up to 4.5 s; the pod has 10 s to end."""


class CallsUnderWay:
    """Counts calls, those of its own and, for whoever is `beyond`, those of all its servers."""

    def __init__(self, beyond: "CallsUnderWay | None" = None) -> None:
        self._beyond = beyond
        self._count = 0
        self._changed = asyncio.Event()
        self._changed_s = float("-inf")

    @property
    def count(self) -> int:
        return self._count

    def begin(self) -> None:
        self.change(1)

    def end(self) -> None:
        self.change(-1)

    def change(self, by: int) -> None:
        """So many more are under way, here and beyond."""
        self._count += by
        self._changed_s = time.monotonic()
        self._changed.set()
        if self._beyond is not None:
            self._beyond.change(by)

    async def finished(self, most_s: float = FINISH_S) -> bool:
        """Whether there were none for QUIET_S, waited for no longer than `most_s`.

        Calls that come meanwhile are waited for as well: the kubelet turns a pod away whose call fails.
        """
        try:
            async with asyncio.timeout(most_s):
                while not await self._is_quiet():
                    pass
        except TimeoutError:
            return False
        return True

    async def _is_quiet(self) -> bool:
        """Waits for the next change, or, where no call is under way, until the last was QUIET_S ago."""
        self._changed.clear()
        left_s = self._changed_s + QUIET_S - time.monotonic()
        if not self._count and left_s <= 0:
            return True
        await wait_for_hint(self._changed, None if self._count else left_s)
        return False


class CountCalls(grpc.aio.ServerInterceptor):
    """Counts a server's calls that have one answer. Streams go on for ever, and are not counted."""

    def __init__(self, calls: CallsUnderWay) -> None:
        self._calls = calls

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        answer = handler.unary_unary

        async def counted(request: Any, context: Any) -> Any:
            self._calls.begin()
            try:
                return await answer(request, context)
            finally:
                self._calls.end()

        return grpc.unary_unary_rpc_method_handler(
            counted, handler.request_deserializer, handler.response_serializer
        )
