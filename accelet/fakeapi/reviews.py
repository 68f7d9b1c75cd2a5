"""Answers who somebody is and what he may do: reviews, which are answered and not stored."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from accelet.fakeapi.lifecycle import Json

REVIEWS = frozenset(
    {
        "apis/authentication.k8s.io/v1/selfsubjectreviews",
        "apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "apis/authorization.k8s.io/v1/subjectaccessreviews",
    }
)


def answer_review(resource: str, body: Json, forbidden: Collection[tuple[str, str]], ahead_s: float) -> Json:
    """The review with its status; `forbidden` are pairs of a verb and a resource, as in `pods/status`."""
    now = datetime.now(UTC) + timedelta(seconds=ahead_s)
    made: Json = {**body, "metadata": {"creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    if resource.endswith("accessreviews"):
        asked = body.get("spec", {}).get("resourceAttributes", {})
        parts = [asked.get("resource", ""), asked.get("subresource", "")]
        wanted = asked.get("verb", ""), "/".join(part for part in parts if part)
        return made | {"status": {"allowed": wanted not in forbidden}}
    return made | {"status": {"userInfo": {"username": "fake"}}}
