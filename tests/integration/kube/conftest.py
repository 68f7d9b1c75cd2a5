from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accelet.fakeapi import FakeApi
from accelet.kube.client import Client
from accelet.kube.connection import Connection, load_api
from accelet.kube.kubeconfig import Kubeconfig


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        yield server


@pytest.fixture
async def client(api: FakeApi, tmp_path: Path) -> AsyncIterator[Client]:
    client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
    yield client
    client.close()


@pytest.fixture
async def impatient_client(api: FakeApi, tmp_path: Path) -> AsyncIterator[Client]:
    """A client whose watches end after 0.4 s of silence."""
    connection = Connection(lambda: load_api(Kubeconfig((api.write_kubeconfig(tmp_path / "kubeconfig"),))))
    client = Client(connection, watch_silence_s=0.4)
    yield client
    client.close()
