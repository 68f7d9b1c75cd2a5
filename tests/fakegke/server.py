"""The fake GKE over HTTP on 127.0.0.1, as Google's own clients speak to it."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tests.fakegke.state import Gke, Json, RefusedError

_CLUSTER = r"/v1/projects/[^/]+/locations/[^/]+"
_POOLS = re.compile(rf"{_CLUSTER}/clusters/[^/]+/nodePools(?:/(?P<name>[^/:]+))?")
_OPERATIONS = re.compile(rf"{_CLUSTER}/operations/(?P<name>[^/:]+)")
_EFFECTS = {1: "NO_SCHEDULE", 2: "PREFER_NO_SCHEDULE", 3: "NO_EXECUTE"}
_PLACEMENTS = {1: "COMPACT"}
_LOCATIONS = {1: "BALANCED", 2: "ANY"}
_RESERVATIONS = {1: "NO_RESERVATION", 2: "ANY_RESERVATION", 3: "SPECIFIC_RESERVATION"}
_STRATEGIES = {2: "BLUE_GREEN", 3: "SURGE", 5: "SHORT_LIVED"}
_STATUSES = ("", "PROVISIONING", "RUNNING", "RUNNING_WITH_ERROR", "RECONCILING", "STOPPING", "ERROR")


class FakeGke:
    """Start with `with FakeGke() as gke`. `faults` are taken off its front, one a request that writes."""

    def __init__(self) -> None:
        self.state = Gke()
        self.faults: list[str] = []
        self.seen: list[tuple[str, str]] = []
        self.token: str | None = None
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take_fault(self) -> str:
        return self.faults.pop(0) if self.faults else ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gke: FakeGke) -> None:
        self.gke = gke
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    @property
    def _gke(self) -> FakeGke:
        assert isinstance(self.server, _Server)
        return self.server.gke

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        self._gke.seen.append((self.command, unquote(url.path)))
        token = self._gke.token
        if token is not None and self.headers.get("Authorization") != f"Bearer {token}":
            refused = RefusedError(401, "UNAUTHENTICATED", "Request had invalid credentials.")
            self._send(401, refused.body())
            return
        fault = "" if self.command == "GET" else self._gke.take_fault()
        if fault == "drop":
            self.close_connection = True
        elif fault.isdecimal():
            self._send(int(fault), RefusedError(int(fault), "UNAVAILABLE", "injected").body())
        else:
            has_numbers = "enum-encoding=int" in unquote(url.query)
            self._act(unquote(url.path), body, has_numbers=has_numbers, is_lost=fault == "lost")

    def _act(self, path: str, body: Json, *, has_numbers: bool, is_lost: bool) -> None:
        try:
            answer = self._answer(path, _as_words(body) if has_numbers else body)
        except RefusedError as refused:
            self._send(refused.code, refused.body())
            return
        if is_lost:
            self.close_connection = True
        else:
            self._send(200, _as_numbers(answer) if has_numbers else answer)

    def _answer(self, path: str, body: Json) -> Json:
        state = self._gke.state
        if found := _OPERATIONS.fullmatch(path):
            return state.operation(found["name"])
        if found := _POOLS.fullmatch(path):
            match self.command, found["name"]:
                case "GET", None:
                    return state.list()
                case "GET", name:
                    return state.get(name)
                case "POST", None:
                    return state.create(body)
                case "DELETE", name if name is not None:
                    return state.delete(name)
        raise RefusedError(404, "NOT_FOUND", f"no such method: {self.command} {path}"[:200])

    def _send(self, code: int, answer: Json) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def _as_words(body: Json) -> Json:
    """Enums as the words of a request without numbers."""
    pool = body.get("nodePool") or {}
    for taint in (pool.get("config") or {}).get("taints") or ():
        taint["effect"] = _EFFECTS.get(taint["effect"], taint["effect"])
    for part, key, words in (
        (pool.get("placementPolicy"), "type", _PLACEMENTS),
        (pool.get("autoscaling"), "locationPolicy", _LOCATIONS),
        ((pool.get("config") or {}).get("reservationAffinity"), "consumeReservationType", _RESERVATIONS),
        (pool.get("upgradeSettings"), "strategy", _STRATEGIES),
    ):
        if part and key in part:
            part[key] = words.get(part[key], part[key])
    return body


def _as_numbers(answer: Json) -> Json:
    """The states of pools as numbers; other enums are taken as words too."""
    shown = [
        {**pool, "status": _STATUSES.index(pool["status"])} if pool.get("status") in _STATUSES else pool
        for pool in answer.get("nodePools") or ()
    ]
    return {**answer, "nodePools": shown} if shown else answer
