from typing import Any

import pytest

from accelet.fakeapi import FakeApi
from accelet.fakeapi.podrules import pod_rules
from accelet.kube.apiresources import PODS
from accelet.kube.client import Client
from accelet.kube.errors import InvalidError
from tests.integration.kube.podpatches import PATCHES


@pytest.mark.parametrize(("name", "spec", "patch", "taken"), PATCHES, ids=[patch[0] for patch in PATCHES])
async def test_fake_server_takes_what_a_real_one_takes(
    client: Client, api: FakeApi, *, name: str, spec: dict[str, Any], patch: dict[str, Any], taken: bool
) -> None:
    api.state.validate["pods"] = pod_rules
    await client.create(PODS, "ml", {"metadata": {"name": name}, "spec": spec})
    if taken:
        await client.patch(PODS, "ml", name, patch, "merge")
    else:
        with pytest.raises(InvalidError):
            await client.patch(PODS, "ml", name, patch, "merge")
