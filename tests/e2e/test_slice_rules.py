"""The rules by which `accelet conformance --dra` judges ResourceSlices are those of a real API server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accelet.fakekubelet.claims.kubeclaims import SLICES
from accelet.kube.client import Client
from accelet.kube.errors import InvalidError
from tests.e2e.cluster.control_plane import ControlPlane
from tests.unit.fakekubelet.slicecorpus import EXAMPLES, Example, slice_of


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig))
    yield client
    client.close()


async def refusals(client: Client, example: Example) -> list[str]:
    """What the API server says of each slice that it refuses."""
    found = []
    for one in example.specs:
        try:
            await client.create(SLICES, None, slice_of(one, "example"), dry_run=True)
        except InvalidError as error:
            found.append(str(error))
    return found


async def test_an_api_server_refuses_what_the_rules_say_and_takes_the_rest(client: Client) -> None:
    found = {example.name: await refusals(client, example) for example in EXAMPLES}
    differing = {
        example.name: found[example.name] or "it is taken"
        for example in EXAMPLES
        if bool(found[example.name]) != example.is_refused
    }
    assert differing == {}
