"""Reads of pods during a call of the kubelet: each has a deadline, and after one that failed nobody waits."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from accelet.kube.errors import KubeError, NotFoundError, UnavailableError
from accelet.node.pods.known import REST_S

READ_S = 1.0
"""The longest a read takes: the kubelet admits no other pod meanwhile."""

T = TypeVar("T")


class TimedReads:
    """Waits for answers of the API server, and remembers whether the last one failed."""

    def __init__(self) -> None:
        self._failed_at = float("-inf")

    @property
    def are_worth_it(self) -> bool:
        """Whether the last one did not fail just now."""
        return time.monotonic() - self._failed_at > REST_S

    async def wait_for(self, answer: Awaitable[T]) -> T:
        """The answer.

        Raises:
            UnavailableError: there was none in time. KubeError: it is an error.
        """
        try:
            async with asyncio.timeout(READ_S):
                answered = await answer
        except TimeoutError:
            self._failed_at = time.monotonic()
            raise UnavailableError(f"The API server did not answer within {READ_S:.0f} s.") from None
        except NotFoundError:
            raise
        except KubeError:
            self._failed_at = time.monotonic()
            raise
        self._failed_at = float("-inf")
        return answered
