"""Threads for blocking calls, which never hold up the end of the process."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


class Workers:
    """At most `size` daemon threads, started when first needed.

    Unlike a ThreadPoolExecutor's, these threads are not joined at exit: a request that hangs in a dead
    connection must not keep a pod in Terminating.
    """

    def __init__(self, name: str, size: int = 1) -> None:
        self._name, self._size = name, size
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, call: Callable[..., R], *args: object) -> R:
        """What `call(*args)` returns or raises, computed on a thread.

        Cancelling the wait takes back a call that no thread has begun. It does not stop one that has begun;
        its result is dropped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        is_taken_back = threading.Event()

        def settle(result: Any, error: BaseException | None) -> None:
            self._busy -= 1
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def job() -> None:
            result, error = None, None
            try:
                if not is_taken_back.is_set():
                    result = call(*args)
            except BaseException as caught:  # carried over to the waiting task as it is
                error = caught
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:
                return  # the loop has ended, and with it everybody who waited

        self._busy += 1
        if self._busy > self._started < self._size:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._jobs.put(job)
        try:
            return await future
        except asyncio.CancelledError:
            is_taken_back.set()
            raise

    def close(self, last: Callable[[], None] | None = None) -> None:
        """Lets the threads end after what they have begun and then `last`. Waits for nothing."""
        if last is not None and self._started:
            self._jobs.put(last)
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
