"""Answers who somebody is and what he may do: reviews, which are answered and not stored."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from accelet.fakeapi.lifecycle import Json

REVIEWS = frozenset(
    {
        "apis/authentication.k8s.io/v1/selfsubjectreviews",
        "apis/authentication.k8s.io/v1/tokenreviews",
        "apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "apis/authorization.k8s.io/v1/subjectaccessreviews",
    }
)


@dataclass(slots=True)
class Authority:
    """Who is who, and who may what, as reviews have it.

    `forbidden` are pairs of a verb and a resource, as in `pods/status`, that nobody may. `tokens` are users
    by their tokens; `readers` pairs of a user and a path that is no resource, as /metrics, that the user may
    get.
    """

    forbidden: set[tuple[str, str]] = field(default_factory=set)
    tokens: dict[str, str] = field(default_factory=dict)
    readers: set[tuple[str, str]] = field(default_factory=set)


def answer_review(resource: str, body: Json, authority: Authority, ahead_s: float) -> Json:
    """The review with its status."""
    now = datetime.now(UTC) + timedelta(seconds=ahead_s)
    made: Json = {**body, "metadata": {"creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    if resource.endswith("accessreviews"):
        path = body.get("spec", {}).get("nonResourceAttributes")
        if path is not None:
            reader = body["spec"].get("user", ""), path.get("path", "")
            return made | {"status": {"allowed": reader in authority.readers}}
        asked = body.get("spec", {}).get("resourceAttributes", {})
        parts = [asked.get("resource", ""), asked.get("subresource", "")]
        wanted = asked.get("verb", ""), "/".join(part for part in parts if part)
        return made | {"status": {"allowed": wanted not in authority.forbidden}}
    if resource.endswith("tokenreviews"):
        user = authority.tokens.get(body.get("spec", {}).get("token", ""))
        known = {} if user is None else {"user": {"username": user, "groups": ["system:authenticated"]}}
        return made | {"status": {"authenticated": user is not None, **known}}
    return made | {"status": {"userInfo": {"username": "fake"}}}
