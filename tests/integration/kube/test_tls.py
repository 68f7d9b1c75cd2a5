"""Which API servers are believed: real TLS, with certificates as clusters have them."""

import http.server
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.connection import load_api
from accelet.kube.errors import UnavailableError
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig

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


async def version_seen(url: str, trusted: Authority, folder: Path) -> str:
    """What a list says that is asked for with this authority's certificate."""
    path = write_kubeconfig(folder / "kubeconfig", server=url, ca=trusted.certificate, credentials=Token("t"))
    client = await Client.connect(path)
    try:
        return (await client.list_page(NODES)).resource_version
    finally:
        client.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "authority")


async def test_authority_without_key_usage_is_believed(authority: Authority, tmp_path: Path) -> None:
    with serving(*authority.issue("IP:127.0.0.1")) as url:
        assert await version_seen(url, authority, tmp_path) == "7"


async def test_another_authority_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority.create(tmp_path / "stranger")
    with (
        serving(*stranger.issue("IP:127.0.0.1")) as url,
        pytest.raises(UnavailableError, match=r"SSLError|certificate"),
    ):
        await version_seen(url, authority, tmp_path)


@pytest.mark.parametrize("name", ["IP:127.0.0.2", "DNS:example.com"])
async def test_a_server_of_another_name_is_not_believed(
    authority: Authority, tmp_path: Path, name: str
) -> None:
    with (
        serving(*authority.issue(name)) as url,
        pytest.raises(UnavailableError, match=r"SSLError|certificate"),
    ):
        await version_seen(url, authority, tmp_path)


def test_nothing_but_strictness_is_taken_back(authority: Authority, tmp_path: Path) -> None:
    path = write_kubeconfig(
        tmp_path / "kubeconfig", server="https://x", ca=authority.certificate, credentials=Token("t")
    )
    context = load_api(path).rest_client.pool_manager.connection_pool_kw["ssl_context"]
    usual = ssl.create_default_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.verify_flags | ssl.VERIFY_X509_STRICT >= usual.verify_flags
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
