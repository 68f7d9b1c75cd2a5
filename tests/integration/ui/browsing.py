"""A client of the page that does as a browser: opens the link, keeps the cookie, follows the stream."""

import http.client
import json
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

READ_S = 60.0


class Browsing:
    """One browser that was let in; its picture is what the stream has told so far.

    Whoever follows the stream closes the browser: `with` does.
    """

    def __init__(self, link: str) -> None:
        where = urlsplit(link)
        self.host = where.netloc
        answer = ask(self.host, f"{where.path}?{where.query}")
        assert answer.status == http.client.OK, answer.body
        self.set_cookie = answer.headers["set-cookie"]
        found = re.search(r"url=(/[^/\"]+/)", answer.body.decode())
        assert found is not None
        self.folder = found[1]
        self.cookie = self.set_cookie.partition(";")[0]
        self.picture: dict[str, dict[str, Any]] = {}
        self.heard: dict[str, Any] = {}
        self.version = -1
        self._connection: http.client.HTTPConnection | None = None
        self._stream: http.client.HTTPResponse | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream. The connection alone would leave its socket open until the answer is garbage."""
        if self._stream is not None:
            self._stream.close()
        if self._connection is not None:
            self._connection.close()

    def get(self, name: str = "", **headers: str) -> "Answer":
        return ask(self.host, self.folder + name, {"Cookie": self.cookie, **headers})

    def follow(self) -> None:
        self._connection = http.client.HTTPConnection(self.host, timeout=READ_S)
        self._connection.request("GET", f"{self.folder}events", headers={"Cookie": self.cookie})
        self._stream = self._connection.getresponse()
        assert self._stream.status == http.client.OK, self._stream.read()
        assert self._stream.headers["content-type"].startswith("text/event-stream")

    def take(self) -> str:
        """Takes one event over; its name."""
        assert self._stream is not None
        name = ""
        while line := self._stream.readline():
            key, _, text = line.decode().rstrip("\n").partition(": ")
            if key == "event":
                name = text
            elif key == "data":
                self._apply(name, json.loads(text))
                return name
        raise EOFError("the stream has ended")

    def until(self, condition: Any) -> dict[str, dict[str, Any]]:
        """Takes events until the picture is so."""
        while not (self.picture and condition(self.picture)):
            self.take()
        return self.picture

    def listen(self, condition: Any) -> None:
        """Takes events until what is said of the API server's silence is so."""
        while not (self.take() == "heard" and condition(self.heard)):
            pass

    def whole(self) -> dict[str, dict[str, Any]]:
        """The picture once everything was seen."""
        return self.until(lambda seen: seen.get("about", {}).get("cluster", {}).get("is_whole"))

    def _apply(self, name: str, told: dict[str, Any]) -> None:
        if name == "heard":
            self.heard = told
            return
        if name == "picture":
            self.picture = {}
        self.version = told["version"]
        for section, keys in told["gone"].items():
            for key in keys:
                del self.picture[section][key]
        for section, boxes in told["put"].items():
            self.picture.setdefault(section, {}).update(boxes)


class Answer:
    """What came of one request."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()


def ask(host: str, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection(host, timeout=READ_S)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        with connection.getresponse() as response:
            return Answer(response)
    finally:
        connection.close()
