"""What a request is about, as its path says."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from accelet.fakeapi.history import Key
from accelet.fakeapi.state import RefusedError

_PATH = re.compile(
    r"/(?P<root>api/v1|apis/[^/]+/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?"
)


@dataclass(frozen=True, slots=True)
class Place:
    """An object, or a list where `name` is None; of all namespaces where `namespace` is."""

    resource: str
    namespace: str | None
    name: str | None
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace or "", self.name or ""


def split_path(path: str) -> Place:
    """
    Raises:
        RefusedError: it is no path of an API server.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    namespace, name = found["namespace"], found["name"]
    return Place(
        f"{found['root']}/{found['plural']}",
        unquote(namespace) if namespace else None,
        unquote(name) if name else None,
        found["sub"] or "",
    )
