"""Which API servers are believed: real TLS, with certificates as clusters have them."""

import json
import ssl
from pathlib import Path

import pytest

from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.connection import load_api
from accelet.kube.errors import UnavailableError
from accelet.kube.kubeconfig import Kubeconfig
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.integration.kube.authorities import Authority, serving


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
    context = load_api(Kubeconfig((path,))).rest_client.pool_manager.connection_pool_kw["ssl_context"]
    usual = ssl.create_default_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.verify_flags | ssl.VERIFY_X509_STRICT >= usual.verify_flags
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize(("scheme", "authorities"), [("https", 1), ("http", 0)])
def test_authorities_of_the_machine_are_read_only_for_servers_that_show_a_certificate(
    scheme: str, authorities: int, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    path = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"{scheme}://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(document))
    context = load_api(Kubeconfig((path,))).rest_client.pool_manager.connection_pool_kw["ssl_context"]
    assert len(context.get_ca_certs()) == authorities
    assert context.verify_mode is ssl.CERT_REQUIRED
