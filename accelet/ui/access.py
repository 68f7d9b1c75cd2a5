"""Who may see the page: one browser for each link, on this machine, asking for the page itself."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Final

from accelet.runtime.excerpts import excerpt

COOKIE: Final = "accelet-ui"
MOST_SESSIONS: Final = 8
_MOST_HEADER: Final = 4096
_HTTP_PORT: Final = 80
"""Browsers leave it out."""

_OURSELVES: Final = frozenset(("same-origin", "none"))
"""What a browser says of a request that the page, or the person at the address bar, has made."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a request says of itself. `headers` by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a request is not answered: a sentence for a person."""

    status: HTTPStatus
    reason: str


def judge_request(asked: PageRequest, port: int) -> Denied | None:
    """Why a request to this port is refused whoever makes it; None where it is not.

    A page of another site that its name server points at this machine (DNS rebinding) asks under its own
    name, and a page of another origin says so. `localhost` is no name of ours: for a browser it may be ::1,
    where another user may listen on the same port and be shown the cookie.
    """
    hosts = {f"127.0.0.1:{port}"} | ({"127.0.0.1"} if port == _HTTP_PORT else set())
    if asked.method != "GET":
        return Denied(HTTPStatus.METHOD_NOT_ALLOWED, "This page is only read: GET is all it answers.")
    host = asked.headers.get("host", "")
    if host not in hosts:
        said = f"It was asked for as {excerpt(host, 80)}, and answers as {' and '.join(sorted(hosts))} alone."
        return Denied(HTTPStatus.MISDIRECTED_REQUEST, said)
    origin = asked.headers.get("origin")
    if origin is not None and origin not in {f"http://{name}" for name in hosts}:
        return Denied(HTTPStatus.FORBIDDEN, f"A page of {excerpt(origin, 80)} asks, which is not this one.")
    return None


class Sessions:
    """The link that may be used next, and the browsers that have used one.

    Each has a folder of its own, whose name nobody else knows: browsers send a cookie to every port of a
    host, but only below its folder.
    """

    def __init__(self) -> None:
        self._link = secrets.token_urlsafe(32)
        self._cookies: dict[str, str] = {}

    @property
    def link(self) -> str:
        """The path that lets one browser in."""
        return f"/open?link={self._link}"

    def open(self, link: str) -> "Opened | Denied":
        """Lets a browser in, once for each link."""
        if not compare_digest(link.encode(), self._link.encode()):
            return Denied(
                HTTPStatus.FORBIDDEN,
                "This link is not valid, or was used before: each opens one browser."
                " The command that serves the page prints the next one.",
            )
        if len(self._cookies) >= MOST_SESSIONS:
            return Denied(
                HTTPStatus.FORBIDDEN,
                f"{MOST_SESSIONS} browsers have been let in; start accelet ui again for more.",
            )
        self._link = secrets.token_urlsafe(32)
        folder, cookie = f"/{secrets.token_urlsafe(16)}/", secrets.token_urlsafe(32)
        self._cookies[folder] = cookie
        return Opened(folder, cookie)

    def judge(self, asked: PageRequest) -> Denied | None:
        """Why whoever asks is not let in; None where it is a browser that has used a link."""
        wanted = self._cookies.get(folder_of(asked.path), "")
        given = _cookie(asked.headers.get("cookie", ""))
        if not wanted or not compare_digest(given.encode(), wanted.encode()):
            return Denied(
                HTTPStatus.FORBIDDEN,
                "This browser was not let in: open the link that accelet ui has printed.",
            )
        if asked.headers.get("sec-fetch-site", "none") not in _OURSELVES:
            return Denied(HTTPStatus.FORBIDDEN, "Another page asks for it.")
        return None


@dataclass(frozen=True, slots=True)
class Opened:
    """A browser that was let in: the folder it is to go to, and the cookie it is to show there."""

    folder: str
    cookie: str

    @property
    def header(self) -> str:
        return f"{COOKIE}={self.cookie}; Path={self.folder}; HttpOnly; SameSite=Strict"


def folder_of(path: str) -> str:
    """The first folder of a path, `/x/` of `/x/y`; empty where it has none."""
    name, slash, _ = path.removeprefix("/").partition("/")
    return f"/{name}/" if slash else ""


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header[:_MOST_HEADER]).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
