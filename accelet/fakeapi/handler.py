"""How the fake API server answers one request."""

import json
import socket
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from accelet.fakeapi.faults import Action, Answer, Drop, Hang, HoldBack
from accelet.fakeapi.lifecycle import Json, has_status
from accelet.fakeapi.paths import Place, split_path
from accelet.fakeapi.reviews import REVIEWS, answer_review
from accelet.fakeapi.state import RefusedError
from accelet.fakeapi.streaming import stream

if TYPE_CHECKING:
    from accelet.fakeapi.server import FakeApi

_METADATA = "as=PartialObjectMetadataList"
_LONGEST_BODY = 3 << 20


@dataclass(frozen=True)
class SeenRequest:
    """One request that came in."""

    at_s: float
    method: str
    path: str
    query: dict[str, str]
    is_watch: bool
    body: Any = None
    content_type: str = ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
        pass

    @property
    def _api(self) -> "FakeApi":
        assert isinstance(self.server, HttpServer)
        return self.server.api

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        is_watch = query.get("watch") == "true"
        length = int(self.headers.get("Content-Length", 0))
        if length > _LONGEST_BODY:
            self.close_connection = True
            self._refuse(Answer(413, "RequestEntityTooLarge", "the request is too large"))
            return
        try:
            body = json.loads(self.rfile.read(length)) if length else None
        except ValueError as error:
            self._refuse(Answer(400, "BadRequest", f"the body is no JSON: {error}"))
            return
        kind = self.headers.get("Content-Type", "")
        seen = SeenRequest(time.monotonic(), self.command, url.path, query, is_watch, body, kind)
        match action := self._judge(seen):
            case Answer():
                self._refuse(action)
            case Hang():
                self._api.is_closed.wait()
                self._drop()
            case Drop(after=False):
                self._drop()
            case _:
                self._act(seen, action)

    def _judge(self, seen: SeenRequest) -> Action | None:
        api = self._api
        with api.state.changed:
            api.seen.append(seen)
            if api.token is not None and self.headers.get("Authorization") != f"Bearer {api.token}":
                return Answer(401, "Unauthorized", "Unauthorized")
            for fault in api.faults:
                if fault.strikes(seen.method, seen.path, is_watch=seen.is_watch):
                    return fault.action
            return None

    def _act(self, seen: SeenRequest, action: Drop | HoldBack | None) -> None:
        try:
            if seen.is_watch:
                self._watch(seen.path, seen.query)
                return
            if (log := self._log(seen)) is not None:
                self._send(200, log)
                return
            answer = self._answer(seen.path, seen.query, seen.body)
        except RefusedError as refused:
            causes = tuple({"field": field, "message": message} for field, message in refused.causes)
            self._refuse(Answer(refused.status, refused.reason, refused.message, causes=causes))
            return
        if isinstance(action, HoldBack):
            action.is_made.set()
            action.released.wait()
        if isinstance(action, Drop):
            self._drop()
        else:
            self._send(201 if self.command == "POST" else 200, json.dumps(answer).encode())

    def _log(self, seen: SeenRequest) -> bytes | None:
        """What a pod wrote, where that is asked for."""
        if seen.method != "GET" or not seen.path.endswith("/log"):
            return None
        key = split_path(seen.path).key
        self._api.state.get("api/v1/pods", key)
        if key not in self._api.logs:
            raise RefusedError(400, "BadRequest", f'container "main" in pod "{key[1]}" is waiting to start')
        return self._api.logs[key]

    def _answer(self, path: str, query: dict[str, str], body: Any) -> Json:
        if path == "/version":
            return {"gitVersion": self._api.version}
        place = split_path(path)
        if self.command == "POST" and place.resource in REVIEWS:
            return answer_review(place.resource, body, self._api.authority, self._api.clock_ahead_s)
        if place.subresource == "status" and not has_status(place.resource):
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        state = self._api.state
        if self.command != "GET":
            return self._write(place, body, dry_run=query.get("dryRun") == "All")
        if place.name is None:
            found = state.list(place.resource, query, place.namespace)
            return _metadata_of(found) if _METADATA in self.headers.get("Accept", "") else found
        return state.get(place.resource, place.key)

    def _write(self, place: Place, body: Any, *, dry_run: bool) -> Json:
        state, resource, key, sub = self._api.state, place.resource, place.key, place.subresource
        if not sub and self.command in ("POST", "PUT"):
            for mutate in self._api.mutations:
                body = mutate(resource, body)
        match self.command, place.name, sub:
            case "POST", None, _:
                return state.create(resource, key[0], body, dry_run=dry_run, subresource="")
            case "POST", str(), "binding":
                state.bind(key, body["target"]["name"], dry_run=dry_run)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "POST", str(), "eviction":
                state.evict(key, (body or {}).get("deleteOptions"), dry_run=dry_run)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "PUT", str(), _:
                return state.replace(resource, key, body, dry_run=dry_run, subresource=sub)
            case "PATCH", str(), _:
                kind = self.headers["Content-Type"].removeprefix("application/").split("+")[0]
                return state.patch(resource, key, kind, body, dry_run=dry_run, subresource=sub)
            case "DELETE", str(), "":
                return state.delete(resource, key, body, dry_run=dry_run)
        raise RefusedError(405, "MethodNotAllowed", "the server does not allow this method")

    def _watch(self, path: str, query: dict[str, str]) -> None:
        place = split_path(path)
        position = int(query.get("resourceVersion") or self._api.state.version)
        too_old = position < self._api.state.collection(place.resource).floor
        if too_old and not self._api.sends_gone_as_event:
            raise RefusedError(410, "Expired", f"too old resource version: {position}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._api.streams += 1
        try:
            is_orderly = stream(self._api, place, query, position, self._chunk)
        finally:
            self._api.streams -= 1
        if is_orderly:
            self._end()
        else:
            self._drop()

    def _chunk(self, event: Json) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, answer: Answer) -> None:
        status: Json = {
            "kind": "Status",
            "status": "Failure",
            "code": answer.status,
            "reason": answer.reason,
            "message": answer.message,
            "details": {"causes": list(answer.causes)},
        }
        if answer.retry_after_s is not None:
            status["details"]["retryAfterSeconds"] = answer.retry_after_s
        body = json.dumps(status).encode() if answer.raw is None else answer.raw
        self._send(answer.status, body, answer.retry_after_s)

    def _send(self, status: int, body: bytes, retry_after_s: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if retry_after_s is not None:
            self.send_header("Retry-After", str(retry_after_s))
        self.end_headers()
        self.wfile.write(body)


def _metadata_of(found: Json) -> Json:
    """A list of which each object has its metadata alone."""
    return {**found, "items": [{"metadata": one["metadata"]} for one in found["items"]]}


class HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: "FakeApi") -> None:
        self.api = api
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def close_connections(self) -> None:
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed long ago

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are what half of the tests are about."""
