"""Requests to Google's REST interfaces: urllib3, with credentials of google-auth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from accelet import __version__
from accelet.control.errors import NotLeadingError
from accelet.control.installed import explain_install

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT: Final = urllib3.Timeout(connect=5.0, read=30.0)
_MOST_BYTES: Final = 32 << 20


class TransportError(Exception):
    """There was no answer, or no token to ask with; the text is a sentence without credentials in it."""


@dataclass(frozen=True, slots=True)
class GkeAnswer:
    """What came back."""

    status: int
    body: bytes
    retry_after_s: float | None = None


class Tokens(Protocol):
    """Where access tokens come from. Both block, on the thread of the request."""

    def token(self) -> str | None:
        """A token that is good now; None to ask without one.

        Raises:
            TransportError: there is none to be had.
        """
        ...

    def renew(self) -> None:
        """The last token was refused: the next one must be new."""
        ...


class NoTokens:
    """For a server that asks for none."""

    def token(self) -> str | None:
        return None

    def renew(self) -> None:
        return None


class GoogleTokens:
    """Application Default Credentials: workload identity, a key file, federation, gcloud's login.

    google-auth is imported when the first token is asked for.
    """

    def __init__(self) -> None:
        self._credentials: Any = None
        self._http = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)

    def token(self) -> str | None:
        try:
            # An extra, which others need not have; typed or not, as its versions go.
            auth: Any = import_module("google.auth")
            auth_errors: Any = import_module("google.auth.exceptions")
        except ImportError:
            raise TransportError(f"the provider gke needs google-auth: {explain_install('gke')}") from None
        try:
            call: Any = self._call
            if self._credentials is None:
                self._credentials, _ = auth.default(scopes=[_SCOPE], request=call)
            if not self._credentials.valid:
                self._credentials.refresh(call)
        except (auth_errors.GoogleAuthError, HTTPError, OSError) as error:
            raise TransportError(f"there is no token of Google's: {type(error).__name__}") from None
        return str(self._credentials.token)

    def renew(self) -> None:
        self._credentials = None

    def _call(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> Any:
        """What google-auth's `Request` does; its answers have status, headers and data, as urllib3's do."""
        limit = timeout or 30.0
        return self._http.request(method, url, body=body, headers=dict(headers or {}), timeout=limit)


class Transport:
    """Blocking requests below one endpoint; a 401 is tried once more with a new token."""

    def __init__(self, endpoint: str, tokens: Tokens) -> None:
        self._endpoint, self._tokens = endpoint.rstrip("/"), tokens
        self._http = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)

    def send(
        self, method: str, path: str, body: Mapping[str, object] | None, may_send: Callable[[], bool]
    ) -> GkeAnswer:
        """`may_send` is asked when all that may take long is done, directly before the request is sent.

        Raises:
            TransportError: there was no whole answer; whether anything was done is not known.
            NotLeadingError: it must not be sent any more; nothing was done by this request.
        """
        answer = self._send(method, path, body, may_send)
        if answer.status == 401:
            self._tokens.renew()
            answer = self._send(method, path, body, may_send)
        return answer

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None, may_send: Callable[[], bool]
    ) -> GkeAnswer:
        token = self._tokens.token()
        headers = {"Accept": "application/json", "User-Agent": f"accelet/{__version__}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        text = None if body is None else msgspec.json.encode(body)
        if not may_send():
            raise NotLeadingError("this replica does not lead any more")
        try:
            response = self._http.request(
                method,
                f"{self._endpoint}{path}",
                body=text,
                headers=headers,
                redirect=False,
                preload_content=False,
            )
            payload = bytes(response.read(_MOST_BYTES + 1))
            response.release_conn()
        except (HTTPError, OSError) as error:
            raise TransportError(f"GKE gave no answer ({type(error).__name__})") from None
        if len(payload) > _MOST_BYTES:
            raise TransportError(f"GKE's answer is larger than {_MOST_BYTES} bytes")
        return GkeAnswer(response.status, payload, _seconds(response.headers.get("Retry-After")))


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdecimal() and len(text) < 6 else None
