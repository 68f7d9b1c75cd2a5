"""Objects made at random that an API server stores, and what reads objects of their kind."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import quote

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from accelet.dra.errors import ClaimError
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, read_page
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.tenants.readers import READERS

_AT_ONCE, _PAGE = 48, 8
_CHOSEN = "labelSelector=corpus"
_WRITERS = 4
_TIMED_OUT = 504
"""It took longer than an API server gives itself, on a busy machine with numbers of 20,000 digits."""

_REFUSED = (400, 403, 409, 422, _TIMED_OUT)

_PATIENCE_S = 120.0


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
    refusals: list[str] = field(default_factory=list)
    _made: list[Json] = field(default_factory=list)

    def fill(self, strategy: st.SearchStrategy[Json], count: int, tries: int = 1) -> None:
        """So many at random, and as many as are refused once more, and so on."""
        for _ in range(tries):
            if self.stored < count:
                self._offer(strategy, count - self.stored)

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
            self.administrator.send("DELETE", f"{self.collection}?{_CHOSEN}", way, _PATIENCE_S)
        except RefusedError as error:
            if error.status != _TIMED_OUT:
                raise  # else what is left goes the next time

    def _list(self) -> Iterator[RawObject]:
        """In pages that an API server can write within the minute that it gives itself."""
        token = ""
        while True:
            path = f"{self.collection}?{_CHOSEN}&limit={_PAGE}&continue={quote(token)}"
            page = read_page(self.administrator.send("GET", path, None, _PATIENCE_S).encode(), self.kind)
            yield from page.items
            token = page.continue_token
            if not token:
                return

    def _post(self, body: Json) -> str | None:
        """The object as it is stored; None where it is refused, which harms nobody."""
        try:
            answer = self.writer.send("POST", self.collection, body, _PATIENCE_S)
            if not self.has_status:
                return answer
            named: Json = json.loads(answer)
            path = f"{self.collection}/{named['metadata']['name']}/status"
            return self.administrator.send("PUT", path, {**named, "status": body["status"]}, _PATIENCE_S)
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
