"""One HTTPS request of the administrator to the API server or a kubelet."""

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.cluster.kubeconfig import Token

Json = dict[str, Any]


class RefusedError(Exception):
    """The server answered, but not with success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Client:
    """Sends a token, and trusts the one authority."""

    url: str
    token: Token
    ca: Path

    def send(self, method: str, path: str, body: Json | None = None, timeout_s: float = 30) -> str:
        """Returns the answer's text; raises RefusedError, or OSError when nobody answers."""
        return self.send_text(method, path, None if body is None else json.dumps(body).encode(), timeout_s)

    def send_text(self, method: str, path: str, body: bytes | None, timeout_s: float = 30) -> str:
        """The same with JSON that Python itself would not write."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=body,
            headers={"Authorization": f"Bearer {self.token.text}", "Content-Type": kind},
        )
        trust = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(request, timeout=timeout_s, context=trust) as response:
                text: str = response.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(error.code, error.read().decode(errors="replace")) from None
        return text

    def try_get(self, path: str) -> str | None:
        """The text at a path; None when nobody answers or there is none."""
        try:
            return self.send("GET", path)
        except (OSError, RefusedError):
            return None
