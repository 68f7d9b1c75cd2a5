"""The fake API server: the contract it shares with a real one, and what only it can be asked."""

import json
import urllib.error
import urllib.request

import pytest

from accelet.fakeapi import FakeApi
from accelet.kube.apiresources import PODS
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, ConflictError, InvalidError, NotFoundError
from tests.contract import apiserver
from tests.contract.apiserver import CHECKS, UNKNOWN, WIDGETS, widget

OWNED = f"apis/{WIDGETS.group}/{WIDGETS.version}/{WIDGETS.plural}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_fake_server_does_as_a_real_one(client: Client, api: FakeApi, check: apiserver.Check) -> None:
    api.state.unserved.add(UNKNOWN.path().removeprefix("/"))
    await check(client, "contract")


async def test_binding_names_the_node_once_and_never_of_a_gated_pod(client: Client, api: FakeApi) -> None:
    target = {"target": {"kind": "Node", "name": "n1"}}
    for name, gates in {"free": [], "gated": [{"name": "example.com/wait"}]}.items():
        body = {"metadata": {"name": name}, "spec": {"schedulingGates": gates}}
        await client.create(PODS, "ml", body)
    path = f"{PODS.path('ml', 'free')}/binding"
    await client._send("POST", path, body=target)
    assert api.state.get("api/v1/pods", ("ml", "free"))["spec"]["nodeName"] == "n1"
    for name in ("free", "gated"):
        with pytest.raises(ConflictError):
            await client._send("POST", f"{PODS.path('ml', name)}/binding", body=target)


async def test_garbage_goes_with_the_last_of_its_owners_if_it_is_collected(
    client: Client, api: FakeApi
) -> None:
    first, second = [await apiserver.create(client, "ml", widget(name)) for name in ("first", "second")]
    owners = [{"kind": "Widget", "name": "", "uid": obj["metadata"]["uid"]} for obj in (first, second)]
    child = await apiserver.create(client, "ml", widget("child", metadata={"ownerReferences": owners}))
    of_child = [{"kind": "Widget", "name": "child", "uid": child["metadata"]["uid"]}]
    await apiserver.create(client, "ml", widget("grandchild", metadata={"ownerReferences": of_child}))
    api.state.collects_garbage = True
    await client.delete(WIDGETS, "ml", "first")
    assert await apiserver.listed(client, "ml") == ["child", "grandchild", "second"]
    await client.delete(WIDGETS, "ml", "second")
    assert await apiserver.listed(client, "ml") == []


async def test_what_is_not_served_is_not_found(client: Client, api: FakeApi) -> None:
    await apiserver.create(client, "ml", widget("w"))
    api.state.unserved.add(OWNED)
    with pytest.raises(NotFoundError):
        await client.get(WIDGETS, "ml", "w")


async def test_methods_and_paths_that_make_no_sense_are_refused(client: Client) -> None:
    with pytest.raises(ApiError, match="405"):
        await client._send("PUT", WIDGETS.path("ml"), body=widget("w"))
    with pytest.raises(NotFoundError):
        await client._send("GET", "/nothing")


def test_body_that_is_no_json_is_refused(api: FakeApi) -> None:
    request = urllib.request.Request(f"{api.url}{WIDGETS.path('ml')}", data=b"{", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value:
        assert refused.value.code == 400
        assert "JSON" in json.loads(refused.value.read())["message"]


async def test_dry_runs_leave_nothing(client: Client) -> None:
    await client.create(WIDGETS, "ml", widget("w"), dry_run=True)
    assert await apiserver.listed(client, "ml") == []
    with pytest.raises(InvalidError):
        await client.create(WIDGETS, "ml", {"metadata": {}}, dry_run=True)
