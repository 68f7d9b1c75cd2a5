from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accelet.kube.client import Client
from tests.integration.kube.fakeapi import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        yield server


@pytest.fixture
async def client(api: FakeApi, tmp_path: Path) -> AsyncIterator[Client]:
    client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
    yield client
    client.close()
