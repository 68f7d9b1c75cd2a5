"""Objects made at random that an API server stores, and what reads objects of their kind."""

import http.client
import json
import ssl
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from accelet.dra.errors import ClaimError
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, read_page
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.tenants.readers import READERS

_AT_ONCE, _PAGE = 96, 8
_CHOSEN = "labelSelector=corpus"
_WRITERS = 8
_AT_LEAST = 10
"""Of the first few that hypothesis makes some are the same each time."""

_TIMED_OUT = 504
"""It took longer than an API server gives itself, on a busy machine with numbers of 20,000 digits."""

_READINGS = 5
_REFUSED = (400, 403, 409, 413, 422, _TIMED_OUT)

_PATIENCE_S = 120.0


class LostError(Exception):
    """The API server hung up: what it has done nobody knows."""


class Connections:
    """Some connections of one account to an API server, which stay open until they are closed."""

    def __init__(self, client: Client) -> None:
        self._host, self._token = urlsplit(client.url).netloc, client.token.text
        self._trust = ssl.create_default_context(cafile=str(client.ca))
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def send(self, method: str, path: str, body: Json | None = None) -> str:
        """Raises RefusedError where the answer is no success, and LostError where there is none.

        An API server hangs up on what takes longer than the minute that it gives itself.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = http.client.HTTPSConnection(self._host, timeout=_PATIENCE_S, context=self._trust)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            with connection.getresponse() as response:
                text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LostError(f"{method} {path}: {error}") from error
        self._idle.append(connection)
        if response.status >= 300:
            raise RefusedError(response.status, text)
        return text

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


@dataclass
class Corpus:
    """Objects of one kind that one account stores; from time to time all are read as a list, and go."""

    kind: str
    writer: Client
    administrator: Client
    collection: str
    has_status: bool = False
    stored: int = 0
    unreadable: int = 0
    lost: int = 0
    refusals: list[str] = field(default_factory=list)
    _made: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._writers, self._administrators = Connections(self.writer), Connections(self.administrator)

    def fill(self, strategy: st.SearchStrategy[Json], count: int, tries: int = 1) -> None:
        """So many at random, and as many as are refused once more, and so on."""
        with closing(self._writers), closing(self._administrators):
            for _ in range(tries):
                if self.stored < count:
                    self._offer(strategy, max(_AT_LEAST if self.stored else 0, count - self.stored))

    def _offer(self, strategy: st.SearchStrategy[Json], count: int) -> None:
        """To look for a smaller example would ask the API server for minutes."""

        @settings(
            max_examples=count,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(strategy)
        def one(body: Json) -> None:
            self._made.append(body)
            if len(self._made) == _AT_ONCE:
                self._store()

        one()
        self._store()

    def _store(self) -> None:
        with ThreadPoolExecutor(_WRITERS) as writers:
            answers = [answer for answer in writers.map(self._post, self._made) if answer is not None]
        self._made.clear()
        for answer in answers:
            self._read(answer.encode())
        self.stored += len(answers)
        for item in self._list():
            self._read(item)
        way = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        try:
            self._administrators.send("DELETE", f"{self.collection}?{_CHOSEN}", way)
        except LostError:
            self.lost += 1  # what is left goes the next time
        except RefusedError as error:
            if error.status != _TIMED_OUT:
                raise

    def _list(self) -> Iterator[RawObject]:
        """In pages that an API server can write within the minute that it gives itself."""
        token = ""
        while True:
            path = f"{self.collection}?{_CHOSEN}&limit={_PAGE}&continue={quote(token)}"
            page = read_page(self._get(path).encode(), self.kind)
            yield from page.items
            token = page.continue_token
            if not token:
                return

    def _get(self, path: str) -> str:
        for _ in range(_READINGS):
            try:
                return self._administrators.send("GET", path)
            except LostError as error:
                self.lost += 1
                self.refusals.append(str(error))
        raise AssertionError(self.refusals[-_READINGS:])

    def _post(self, body: Json) -> str | None:
        """The object as it is stored; None where it is refused, which harms nobody."""
        try:
            answer = self._writers.send("POST", self.collection, body)
            if not self.has_status:
                return answer
            named: Json = json.loads(answer)
            path = f"{self.collection}/{named['metadata']['name']}/status"
            return self._administrators.send("PUT", path, {**named, "status": body["status"]})
        except LostError as error:
            self.lost += 1
            self.refusals.append(str(error))
        except RefusedError as error:
            assert error.status in _REFUSED, error  # noqa: PT017
            self.refusals.append(str(error))
        return None

    def _read(self, raw: RawObject) -> None:
        """By everything that reads this kind: it has a value, or says what is wrong with this object."""
        for reader in READERS[self.kind]:
            try:
                reader(raw)
            except (MalformedObjectError, ClaimError) as error:
                self.unreadable += 1
                assert len(str(error)) < 5_000  # noqa: PT017
