"""The fake API server itself: HTTP on 127.0.0.1, one thread a connection."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from accelet.fakeapi.faults import Fault
from accelet.fakeapi.handler import HttpServer, SeenRequest
from accelet.fakeapi.history import Key
from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.reviews import Authority
from accelet.fakeapi.state import State


class FakeApi:
    """Start with `with FakeApi() as api`; `api.state` has the objects, `api.faults` what goes wrong.

    Watches are `lag_s` behind; lists and reads never are. `clock_ahead_s` is by how much the clock is ahead
    by which reviews are answered, `authority` what they say, `version` what /version says. `logs` are what
    pods wrote, by namespace and name; who follows one gets no more than is there. `mutations` are what
    admission does to each object that is created or replaced: from its resource and itself to what is kept.
    """

    def __init__(self, *, token: str | None = None, bookmark_s: float = 0.05) -> None:
        self.state = State()
        self.faults: list[Fault] = []
        self.seen: list[SeenRequest] = []
        self.logs: dict[Key, bytes] = {}
        self.mutations: list[Callable[[str, Json], Json]] = []
        self.token = token
        self.bookmark_s: float | None = bookmark_s
        self.sends_gone_as_event = True
        self.is_stalled = False
        self.lag_s = 0.0
        self.clock_ahead_s = 0.0
        self.version = "v1.36.0"
        self.authority = Authority()
        self.streams = 0
        self.generation = 0
        self.breaks = False
        self.is_closed = threading.Event()
        self._server = HttpServer(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_closed.set()
        self.end_watches()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def write_kubeconfig(self, path: Path, token: str | None = None) -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {"token": "any" if token is None else token}}],
        }
        path.write_text(json.dumps(config))
        return path

    def forbid(self, verb: str, resource: str) -> None:
        """Has reviews say that nobody may do this; requests are answered as before."""
        self.authority.forbidden.add((verb, resource))

    def end_watches(self, *, broken: bool = False) -> None:
        """Ends all watches: as a server that shuts down, or as a connection that breaks."""
        with self.state.changed:
            self.generation += 1
            self.breaks = broken
            self.state.changed.notify_all()

    def count(self, *, method: str = "", path: str = "", watch: bool | None = None) -> int:
        return sum(
            1
            for seen in self.seen
            if method in ("", seen.method) and path in seen.path and watch in (None, seen.is_watch)
        )
