"""The page over HTTP: a link that lets a browser in, the files of the page, and its stream of changes."""

from collections.abc import Awaitable, Callable
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from accelet.kube.objects import ObjectKey
from accelet.overview.podevents import EventsBox, is_object_name
from accelet.ui.access import Denied, PageRequest, Sessions, judge_request
from accelet.ui.subscribers import MOST_SUBSCRIBERS, Subscribers

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    # A connection is for one request: none is held for the next one.
    "Connection": "close",
}
_FORWARD: Final = '<!doctype html><title>accelet</title><meta http-equiv="refresh" content="0; url={folder}">'
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def make_app(
    sessions: Sessions,
    subscribers: Subscribers,
    port: int,
    let_in: Callable[[], None],
    tell_events: Callable[[ObjectKey], Awaitable[EventsBox]],
) -> ASGIApp:
    """`let_in` is told each time a browser has used the link; `tell_events` has the Events of a pod."""

    async def open_page(request: Request) -> Response:
        opened = sessions.open(request.query_params.get("link", ""))
        if isinstance(opened, Denied):
            return _deny(opened)
        let_in()
        # The page itself goes on to its folder: a browser that came from elsewhere shows no cookie at first.
        forward = _FORWARD.format(folder=opened.folder)
        return HTMLResponse(forward, headers={"Set-Cookie": opened.header})

    async def file(request: Request) -> Response:
        found = page_files().get(request.path_params.get("name") or "page.html")
        if found is None:
            return PlainTextResponse("There is no such page.", HTTPStatus.NOT_FOUND)
        content, media_type = found
        return Response(content, media_type=media_type)

    async def pod_events(request: Request) -> Response:
        key = request.path_params["namespace"], request.path_params["pod"]
        if not all(map(is_object_name, key)):
            return PlainTextResponse("No pod has such a name.", HTTPStatus.NOT_FOUND)
        return Response(msgspec.json.encode(await tell_events(key)), media_type="application/json")

    app = Starlette(
        routes=[
            Route("/open", open_page),
            Route("/{folder}/events", _Stream(subscribers)),
            Route("/{folder}/pods/{namespace}/{pod}/events", pod_events),
            Route("/{folder}/", file),
            Route("/{folder}/{name}", file),
        ]
    )
    return Guard(app, sessions, port)


class _Stream:
    """The stream of changes: a browser is counted from when there is room for it to its end."""

    def __init__(self, subscribers: Subscribers) -> None:
        self._subscribers = subscribers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._subscribers.seated() as has_room:
            await (self._follow() if has_room else _full())(scope, receive, send)

    def _follow(self) -> Response:
        return StreamingResponse(self._subscribers.follow(), media_type="text/event-stream")


def _full() -> Response:
    reason = f"{MOST_SUBSCRIBERS} pages are open already; close one."
    return PlainTextResponse(reason, HTTPStatus.SERVICE_UNAVAILABLE)


class Guard:
    """Refuses whoever may not ask, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, sessions: Sessions, port: int) -> None:
        self._app, self._sessions, self._port = app, sessions, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        guarded = self._guarded(send)
        denied = self._judge(_read(scope))
        await (self._app if denied is None else _deny(denied))(scope, receive, guarded)

    def _judge(self, asked: PageRequest) -> Denied | None:
        denied = judge_request(asked, self._port)
        return denied if denied or asked.path == "/open" else self._sessions.judge(asked)

    def _guarded(self, send: Send) -> Send:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        return guarded


def _read(scope: Scope) -> PageRequest:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return PageRequest(scope["method"], scope["path"], headers)


def _deny(denied: Denied) -> Response:
    return PlainTextResponse(denied.reason + "\n", denied.status)


@cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page, and of what type each is."""
    folder = files("accelet.ui") / "page"
    found = {one.name: one for one in folder.iterdir()}
    return {
        name: (one.read_bytes(), _TYPES["." + name.rpartition(".")[2]])
        for name, one in found.items()
        if "." + name.rpartition(".")[2] in _TYPES
    }
