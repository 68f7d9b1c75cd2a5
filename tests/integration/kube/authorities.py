"""Certificate authorities as clusters have them, and HTTPS servers with their certificates."""

import http.server
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LAX_AUTHORITY = """
[req]
distinguished_name = name
prompt = no
x509_extensions = extensions
[name]
CN = an authority without key usage
[extensions]
basicConstraints = critical, CA:TRUE
"""


@dataclass(frozen=True)
class Authority:
    """A certificate authority that says nothing of what its key is for, as those of many clusters."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    @classmethod
    def create(cls, folder: Path) -> "Authority":
        folder.mkdir()
        (folder / "ca.cnf").write_text(_LAX_AUTHORITY)
        made = cls(folder)
        _openssl(
            *_new_key(folder / "ca.key"), "-x509", "-config", folder / "ca.cnf", "-out", made.certificate
        )
        return made

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of a server that is called `name`, an entry of subjectAltName."""
        certificate, key = self.folder / "server.crt", self.folder / "server.key"
        _openssl(
            *_new_key(key),
            *("-x509", "-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-subj", "/CN=server"),
            *("-addext", f"subjectAltName={name}", "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-addext", "authorityKeyIdentifier=keyid", "-out", certificate),
        )
        return certificate, key


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"items": [], "metadata": {"resourceVersion": "7"}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(certificate: Path, key: Path) -> Iterator[str]:
    """An HTTPS server on 127.0.0.1; its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    # The handshake happens on the thread of the connection: one that fails is no fault of the server.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
