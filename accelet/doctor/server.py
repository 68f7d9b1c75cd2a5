"""Asks the API server what it alone can tell: what time it is, and who may do what."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from accelet.doctor.rights import Right
from accelet.kube.apiresources import ApiResource, ObjectApi
from accelet.kube.errors import ApiError, MalformedObjectError, is_refusal
from accelet.kube.objects import RawObject, Wire, read_object

SELF_REVIEWS = ApiResource("SelfSubjectReview", "selfsubjectreviews", "authentication.k8s.io")
SELF_ACCESS = ApiResource("SelfSubjectAccessReview", "selfsubjectaccessreviews", "authorization.k8s.io")
ACCESS = ApiResource("SubjectAccessReview", "subjectaccessreviews", "authorization.k8s.io")

AT_ONCE = 8


class _WireMade(Wire, frozen=True):
    creation_timestamp: datetime | None = None


class _WireAnswer(Wire, frozen=True):
    allowed: bool | None = None


class _WireReview(Wire, frozen=True):
    metadata: _WireMade | None = None
    status: _WireAnswer | None = None


async def ask_time(api: ObjectApi) -> float | None:
    """Our clock less the API server's, in seconds, right to a second or two; None where it does not tell.

    A review of oneself, which everybody may ask for and nobody stores, comes back with the server's time.

    Raises:
        KubeError: there is no answer.
    """
    body = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
    before_s = time.time()
    try:
        answer = await api.create(SELF_REVIEWS, None, body)
    except ApiError as error:
        if is_refusal(error):
            return None
        raise
    made = _read(answer, SELF_REVIEWS.kind).metadata
    if made is None or made.creation_timestamp is None:
        return None
    # The server cuts its second off; ours is the middle of the question.
    return (before_s + time.time()) / 2 - (made.creation_timestamp.timestamp() + 0.5)


async def ask_rights(
    api: ObjectApi, rights: Iterable[Right], user: str | None = None
) -> Sequence[tuple[Right, bool | None]]:
    """Whether `user`, or whoever asks, has each right; None where it does not say.

    Raises:
        KubeError: there is no answer.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(right: Right) -> tuple[Right, bool | None]:
        async with gate:
            return right, await _ask(api, right, user)

    return await asyncio.gather(*map(ask, rights))


async def _ask(api: ObjectApi, right: Right, user: str | None) -> bool | None:
    kind = SELF_ACCESS if user is None else ACCESS
    spec: dict[str, object] = {"resourceAttributes": right.attributes()}
    if user is not None:
        _, _, namespace, _ = user.split(":")
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        spec |= {"user": user, "groups": groups}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
    try:
        status = _read(await api.create(kind, None, body), kind.kind).status
    except ApiError as error:
        if is_refusal(error):
            return None
        raise
    return None if status is None else status.allowed


def _read(raw: RawObject, kind: str) -> _WireReview:
    """An answer that is none says nothing; it is no fault of what is asked about."""
    try:
        return read_object(raw, kind, _WireReview)
    except MalformedObjectError:
        return _WireReview()
