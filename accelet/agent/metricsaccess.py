"""Who may read /metrics where it names tenants' pods: whoever the API server lets read it."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from accelet.kube.apiresources import ApiResource, Body
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.probes import Refusal

REMEMBERED_S = 60.0
"""How long an answer holds: whoever loses the right reads so long on."""

MOST_REMEMBERED = 64
MOST_WAITING = 8
"""Strangers beyond that are told at once that nobody answers: each of them costs the API server a review."""

REVIEW_S = 4.0

_TOKEN_REVIEWS = ApiResource("TokenReview", "tokenreviews", "authentication.k8s.io")
_ACCESS_REVIEWS = ApiResource("SubjectAccessReview", "subjectaccessreviews", "authorization.k8s.io")


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


@dataclass(frozen=True, slots=True)
class _Remembered:
    refusal: Refusal | None
    until: float


class MetricsAccess:
    """Asks the API server, by a TokenReview and a SubjectAccessReview, and remembers its answers.

    A token alone is not enough, since every pod of a cluster has one: its owner needs the verb `get` on the
    path /metrics, as Kubernetes' own components ask of whoever reads theirs.
    """

    def __init__(self, connect: Callable[[], Awaitable[Client]], clock: Clock = SYSTEM_CLOCK) -> None:
        self._connect, self._clock = connect, clock
        self._granted: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._refused: OrderedDict[bytes, _Remembered] = OrderedDict()
        # Whoever may read has a turn of its own: strangers with ever new tokens keep nobody out.
        self._turn_of_known, self._turn_of_strangers = asyncio.Lock(), asyncio.Lock()
        self._reviews: set[asyncio.Task[Refusal | None]] = set()

    async def admit(self, token: str | None) -> Refusal | None:
        """Why the owner of this token may not read; None where it may."""
        if not token:
            return Refusal.NO_TOKEN
        # The token itself is not kept: memory may end in a core file.
        key = hashlib.sha256(token.encode()).digest()
        if (known := self._known(key)) is not None:
            return known.refusal
        if key not in self._granted and len(self._reviews) >= MOST_WAITING:
            return Refusal.NOT_ANSWERED
        # A request that has begun cannot be taken back: its turn ends with it, not when nobody waits.
        review = asyncio.create_task(self._review_in_turn(key, token))
        self._reviews.add(review)
        review.add_done_callback(self._reviews.discard)
        await asyncio.wait([review], timeout=REVIEW_S)
        return review.result() if review.done() else Refusal.NOT_ANSWERED

    def _known(self, key: bytes) -> _Remembered | None:
        known = self._granted.get(key) or self._refused.get(key)
        return known if known is not None and self._clock.now_s() < known.until else None

    async def _review_in_turn(self, key: bytes, token: str) -> Refusal | None:
        turn = self._turn_of_known if key in self._granted else self._turn_of_strangers
        async with turn:
            if (known := self._known(key)) is not None:
                return known.refusal
            try:
                refusal = await self._review(token)
            except (KubeError, msgspec.MsgspecError):
                return Refusal.NOT_ANSWERED
            self._remember(key, refusal)
            return refusal

    def _remember(self, key: bytes, refusal: Refusal | None) -> None:
        """Refusals apart: whoever sends one token after another crowds out nobody who may read."""
        self._granted.pop(key, None)
        self._refused.pop(key, None)
        answers = self._granted if refusal is None else self._refused
        answers[key] = _Remembered(refusal, self._clock.now_s() + REMEMBERED_S)
        if len(answers) > MOST_REMEMBERED:
            answers.popitem(last=False)

    async def _review(self, token: str) -> Refusal | None:
        client = await self._connect()
        body: Body = {
            "apiVersion": _TOKEN_REVIEWS.api_version,
            "kind": _TOKEN_REVIEWS.kind,
            "spec": {"token": token},
        }
        said = msgspec.json.decode(await client.create(_TOKEN_REVIEWS, None, body), type=_TokenReview).status
        if not said.authenticated or not said.user.username:
            return Refusal.NOBODY
        asked: Body = {
            "apiVersion": _ACCESS_REVIEWS.api_version,
            "kind": _ACCESS_REVIEWS.kind,
            "spec": {
                "user": said.user.username,
                "uid": said.user.uid,
                "groups": said.user.groups or [],
                "extra": said.user.extra or {},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        }
        answer = await client.create(_ACCESS_REVIEWS, None, asked)
        is_allowed = msgspec.json.decode(answer, type=_AccessReview).status.allowed
        return None if is_allowed else Refusal.NOT_ALLOWED
