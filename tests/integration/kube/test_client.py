import asyncio
import json
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from accelet.fakeapi import Answer, Drop, FakeApi, Fault, Hang
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS
from accelet.kube.client import Client
from accelet.kube.errors import (
    ApiError,
    ConfigurationError,
    ConflictError,
    ExistsError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyError,
    UnauthorizedError,
    UnavailableError,
)
from accelet.kube.podparser import parse_pod
from tests.fakes.manifests import raw_pod
from tests.integration.kube.waiting import eventually


async def test_object_lives_through_create_get_patch_replace_delete(client: Client) -> None:
    created = parse_pod(await client.create(PODS, "ml", raw_pod("p")))
    assert parse_pod(await client.get(PODS, "ml", "p")) == created
    operations = [{"op": "add", "path": "/metadata/labels/role", "value": "leader"}]
    patched = parse_pod(await client.patch(PODS, "ml", "p", operations, "json"))
    assert patched.labels == {"app": "p", "role": "leader"}
    merged = await client.patch(PODS, "ml", "p", {"metadata": {"labels": {"role": None}}}, "merge")
    assert parse_pod(merged).labels == {"app": "p"}
    stale = json.loads(merged) | {"metadata": {"resourceVersion": created.resource_version}}
    with pytest.raises(ConflictError):
        await client.replace(PODS, "ml", "p", stale)
    await client.replace(PODS, "ml", "p", json.loads(merged))
    with pytest.raises(ConflictError):
        await client.delete(PODS, "ml", "p", uid="another")
    await client.delete(PODS, "ml", "p", uid=created.uid)
    with pytest.raises(NotFoundError):
        await client.get(PODS, "ml", "p")


async def test_apply_creates_and_updates(client: Client) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
    await client.patch(CONFIG_MAPS, "ml", "plan", body, "apply")
    await client.patch(CONFIG_MAPS, "ml", "plan", {**body, "data": {"a": "2"}}, "apply")
    assert json.loads(await client.get(CONFIG_MAPS, "ml", "plan"))["data"] == {"a": "2"}


async def test_nodes_status_is_changed_by_its_subresource_alone(client: Client) -> None:
    await client.create(NODES, None, {"metadata": {"name": "n"}, "spec": {"unschedulable": True}})
    change = {"spec": {"unschedulable": False}, "status": {"capacity": {"cpu": "2"}}}
    await client.patch(NODES, None, "n", change, "merge", subresource="status")
    made = json.loads(await client.get(NODES, None, "n"))
    assert (made["spec"], made["status"]) == ({"unschedulable": True}, {"capacity": {"cpu": "2"}})
    change = {"spec": {"unschedulable": False}, "status": {"capacity": {"cpu": "4"}}}
    await client.patch(NODES, None, "n", change, "merge")
    made = json.loads(await client.get(NODES, None, "n"))
    assert (made["spec"], made["status"]) == ({"unschedulable": False}, {"capacity": {"cpu": "2"}})


async def test_dry_run_changes_nothing(client: Client, api: FakeApi) -> None:
    await client.create(PODS, "ml", raw_pod("p"))
    version = api.state.version
    await client.create(PODS, "ml", raw_pod("q"), dry_run=True)
    await client.patch(PODS, "ml", "p", {"metadata": {"labels": {"x": "y"}}}, "merge", dry_run=True)
    await client.delete(PODS, "ml", "p", dry_run=True)
    assert api.state.version == version


@pytest.mark.parametrize("size", [1, 2, 5, 100, None])
async def test_pages_add_up_to_the_list(client: Client, size: int | None) -> None:
    for number in range(5):
        await client.create(PODS, "ml", raw_pod(f"p{number}"))
    await client.create(PODS, "other", raw_pod("q"))
    names = [
        parse_pod(item).name
        async for page in client.list_pages(PODS, "ml", {"labelSelector": "app!=p3"}, size)
        for item in page.items
    ]
    assert names == ["p0", "p1", "p2", "p4"]


async def test_pages_that_expire_are_gone(client: Client, api: FakeApi) -> None:
    for number in range(5):
        await client.create(PODS, "ml", raw_pod(f"p{number}"))
    async with aclosing(client.list_pages(PODS, "ml", {}, 2)) as pages:
        await anext(pages)
        api.state.expire_pages()
        with pytest.raises(GoneError):
            await anext(pages)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(400, "BadRequest"), InvalidError),
        (Answer(403, "Forbidden"), ForbiddenError),
        (Answer(404, "NotFound"), NotFoundError),
        (Answer(409, "Conflict"), ConflictError),
        (Answer(409, "AlreadyExists"), ExistsError),
        (Answer(410, "Expired"), GoneError),
        (Answer(429, "TooManyRequests", retry_after_s=7), TooManyError),
        (Answer(500, "InternalError"), ServerError),
        (Answer(500, raw=b'{"message": "etcdserver: request is too large", "code": 500}'), InvalidError),
        (Answer(503, "ServiceUnavailable", retry_after_s=7), ServerError),
        (Answer(418, "Teapot"), ApiError),
        (Answer(502, raw=b"<html>bad gateway</html>"), ServerError),
    ],
)
async def test_refusal_has_its_error(
    client: Client, api: FakeApi, answer: Answer, kind: type[ApiError]
) -> None:
    api.faults.append(Fault(answer))
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "ml", "p")
    assert type(caught.value) is kind
    assert caught.value.status == answer.status
    assert caught.value.retry_after_s == answer.retry_after_s
    assert str(caught.value).startswith(f"GET /api/v1/namespaces/ml/pods/p: {answer.status} ")
    assert "html" not in str(caught.value)
    assert len(api.seen) == 1, "nothing is sent again behind our back"


async def test_invalid_names_the_fields(client: Client, api: FakeApi) -> None:
    api.state.validate["pods"] = lambda _, new: [("spec.affinity", "may only be tightened")]
    with pytest.raises(InvalidError) as caught:
        await client.create(PODS, "ml", raw_pod("p"))
    assert caught.value.causes == ("spec.affinity: may only be tightened",)


async def test_broken_connection_is_unavailable_and_sent_once(client: Client, api: FakeApi) -> None:
    api.faults.append(Fault(Drop(after=True), "POST"))
    with pytest.raises(UnavailableError):
        await client.create(PODS, "ml", raw_pod("p"))
    assert api.count(method="POST") == 1
    assert parse_pod(await client.get(PODS, "ml", "p")).name == "p", "the write was done all the same"


async def test_nobody_listening_is_unavailable(tmp_path: Path) -> None:
    with FakeApi() as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    client = await Client.connect(kubeconfig)
    with pytest.raises(UnavailableError, match="Connection refused"):
        await client.get(PODS, "ml", "p")
    client.close()


async def test_new_token_is_read_when_the_old_one_is_refused(tmp_path: Path) -> None:
    with FakeApi(token="new-secret") as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig", "old-secret")
        client = await Client.connect(kubeconfig)
        client._connection._loaded_s -= 60  # as if it had been read a minute ago
        api.write_kubeconfig(kubeconfig, "new-secret")
        await client.create(PODS, "ml", raw_pod("p"))
        assert len(api.seen) == 2
        client.close()


async def test_refused_token_is_an_error_without_the_token(tmp_path: Path) -> None:
    with FakeApi(token="right-secret") as api:
        client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig", "wrong-secret"))
        with pytest.raises(UnauthorizedError) as caught:
            await client.get(PODS, "ml", "p")
        assert "secret" not in repr(caught.value)
        assert "secret" not in repr(client.__dict__)
        client.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "{}",
        "- 1",
        "token: hunter2: x",
        '{"clusters": "hunter2"}',
        '{"current-context": "hunter3"}',
    ],
)
async def test_unusable_kubeconfig_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=str(path)) as caught:
        await Client.connect(path)
    assert "hunter2" not in str(caught.value)


async def test_absent_kubeconfig_and_absent_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        await Client.connect(tmp_path / "nowhere")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match="no service account in this pod"):
        await Client.connect()


async def test_requests_do_not_wait_for_each_other_with_more_threads(api: FakeApi, tmp_path: Path) -> None:
    client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"), threads=3)
    api.faults.append(Fault(Hang(), path="slow", times=2))
    hanging = [asyncio.create_task(client.get(PODS, "ml", "slow")) for _ in range(2)]
    await client.create(PODS, "ml", raw_pod("p"))
    for task in hanging:
        task.cancel()
    client.close()


async def events_of(client: Client, api: FakeApi, **query: str) -> list[dict[str, Any]]:
    query = {"resourceVersion": str(api.state.version), "timeoutSeconds": "1", **query}
    async with client.watch(PODS, "ml", query) as watch:
        await client.create(PODS, "ml", raw_pod("p"))
        await client.delete(PODS, "ml", "p")
        return [json.loads(line) async for lines in watch for line in lines]


async def test_watch_gives_events_and_bookmarks_to_its_end(client: Client, api: FakeApi) -> None:
    kinds = [event["type"] for event in await events_of(client, api)]
    assert [kind for kind in kinds if kind != "BOOKMARK"] == ["ADDED", "DELETED"]
    assert "BOOKMARK" in kinds


async def test_half_open_watch_ends_by_its_silence(impatient_client: Client, api: FakeApi) -> None:
    api.is_stalled = True
    query = {"resourceVersion": str(api.state.version)}
    async with asyncio.timeout(5), impatient_client.watch(PODS, None, query) as watch:
        assert [lines async for lines in watch] == []


@pytest.mark.parametrize("hangs", [False, True])
async def test_watch_stops_at_once(client: Client, api: FakeApi, hangs: bool) -> None:
    api.is_stalled = True
    if hangs:
        api.faults.append(Fault(Hang(), watch=True))

    async def follow() -> None:
        async with client.watch(PODS, None, {"resourceVersion": str(api.state.version)}) as watch:
            async for _ in watch:
                pytest.fail("nothing was sent")

    task = asyncio.create_task(follow())
    await eventually(lambda: bool(api.streams or (hangs and api.seen)))
    started_s = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started_s < 5.0


async def test_stopped_watch_leaves_no_thread_and_no_connection(client: Client, api: FakeApi) -> None:
    async def follow() -> None:
        async with client.watch(PODS, None, {"resourceVersion": str(api.state.version)}) as watch:
            async for _ in watch:
                pass

    def threads() -> int:
        return sum(thread.name.startswith("kube-watch") for thread in threading.enumerate())

    api.is_stalled = True  # no bookmark may wake the thread up
    before = threads()
    task = asyncio.create_task(follow())
    await eventually(lambda: api.streams == 1)
    assert threads() == before + 1
    task.cancel()
    await eventually(lambda: threads() == before)
    api.end_watches()
    await eventually(lambda: api.streams == 0)


async def test_every_error_is_of_one_base() -> None:
    for kind in (ApiError, UnavailableError, ConfigurationError):
        assert issubclass(kind, KubeError)
