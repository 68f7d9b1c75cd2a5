"""What an API server does with objects: the fake one and a real one are held to each check."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accelet.kube.apiresources import CONFIG_MAPS, JOBS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, InvalidError, NotFoundError

WIDGETS = ApiResource("Widget", "widgets", "contract.accelet.dev", "v1alpha1")
"""A custom kind with a status subresource; a real server needs `widget_definition` first."""

SLICES = ApiResource("ResourceSlice", "resourceslices", "resource.k8s.io")
CLAIMS = ApiResource("ResourceClaim", "resourceclaims", "resource.k8s.io")
UNKNOWN = ApiResource("Absent", "absents", "absent.accelet.dev")

Json = dict[str, Any]
Check = Callable[[Client, str], Awaitable[None]]


def widget_definition() -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": WIDGETS.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "metadata": {"name": f"{WIDGETS.plural}.{WIDGETS.group}"},
        "spec": {
            "group": WIDGETS.group,
            "scope": "Namespaced",
            "names": {"plural": WIDGETS.plural, "singular": "widget", "kind": WIDGETS.kind},
            "versions": [version],
        },
    }


def widget(name: str, **fields: Any) -> Json:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": WIDGETS.api_version, "kind": WIDGETS.kind, "metadata": metadata, **fields}


async def create(client: Client, namespace: str, body: Json) -> Json:
    created: Json = json.loads(await client.create(WIDGETS, namespace, body))
    return created


async def names_a_generated_object(client: Client, namespace: str) -> None:
    body = widget("", metadata={"name": None, "generateName": "made-"})
    del body["metadata"]["name"]
    first, second = [await create(client, namespace, body) for _ in range(2)]
    names = {first["metadata"]["name"], second["metadata"]["name"]}
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


async def refuses_an_object_without_a_name(client: Client, namespace: str) -> None:
    with pytest.raises(InvalidError):
        await client.create(WIDGETS, namespace, {**widget(""), "metadata": {}})


async def refuses_what_is_meant_for_another_version(client: Client, namespace: str) -> None:
    old = await create(client, namespace, widget("w", spec={"size": 1}))
    await client.patch(WIDGETS, namespace, "w", {"spec": {"size": 2}}, "merge")
    with pytest.raises(ConflictError):
        await client.replace(WIDGETS, namespace, "w", {**old, "spec": {"size": 3}})
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    with pytest.raises(ConflictError):
        await client.patch(WIDGETS, namespace, "w", {**version, "spec": {"size": 3}}, "merge")
    assert json.loads(await client.get(WIDGETS, namespace, "w"))["spec"] == {"size": 2}


async def refuses_what_is_meant_for_a_predecessor(client: Client, namespace: str) -> None:
    await create(client, namespace, widget("w"))
    uid = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}
    with pytest.raises(InvalidError, match=r"metadata\.uid"):
        await client.patch(WIDGETS, namespace, "w", {**uid, "spec": {"size": 3}}, "merge")
    of_another = widget("w", metadata={**uid["metadata"], "resourceVersion": "1"})
    with pytest.raises(ConflictError):
        await client.patch(WIDGETS, namespace, "w", of_another, "merge")
    with pytest.raises(ConflictError):
        await client.replace(WIDGETS, namespace, "w", of_another)
    with pytest.raises(ConflictError):
        await client.delete(WIDGETS, namespace, "w", uid="00000000-0000-0000-0000-000000000000")


async def keeps_spec_and_status_apart(client: Client, namespace: str) -> None:
    made = await create(client, namespace, widget("w", spec={"size": 1}, status={"ready": 1}))
    assert "status" not in made
    both = {"spec": {"size": 2}, "status": {"ready": 2}, "metadata": {"labels": {"a": "b"}}}
    by_status = json.loads(await client.patch(WIDGETS, namespace, "w", both, "merge", subresource="status"))
    assert (by_status["spec"], by_status["status"]) == ({"size": 1}, {"ready": 2})
    assert "labels" not in by_status["metadata"]
    both["status"] = {"ready": 3}
    by_object = json.loads(await client.patch(WIDGETS, namespace, "w", both, "merge"))
    assert (by_object["spec"], by_object["status"]) == ({"size": 2}, {"ready": 2})
    assert by_object["metadata"]["labels"] == {"a": "b"}


async def counts_generations_of_the_spec(client: Client, namespace: str) -> None:
    made = await create(client, namespace, widget("w", spec={"size": 1}))
    status, labels = {"status": {"ready": 1}}, {"metadata": {"labels": {"a": "b"}}}
    await client.patch(WIDGETS, namespace, "w", status, "merge", subresource="status")
    same = json.loads(await client.patch(WIDGETS, namespace, "w", labels, "merge"))
    next_one = json.loads(await client.patch(WIDGETS, namespace, "w", {"spec": {"size": 2}}, "merge"))
    generations = [obj["metadata"]["generation"] for obj in (made, same, next_one)]
    assert generations == [1, 1, 2]


async def keeps_what_has_finalizers(client: Client, namespace: str) -> None:
    await create(client, namespace, widget("w", metadata={"finalizers": ["accelet.dev/free"]}))
    await client.delete(WIDGETS, namespace, "w")
    going = json.loads(await client.get(WIDGETS, namespace, "w"))["metadata"]
    assert going["deletionTimestamp"]
    assert going["deletionGracePeriodSeconds"] == 0
    await client.delete(WIDGETS, namespace, "w")
    more = {"metadata": {"finalizers": ["accelet.dev/free", "accelet.dev/more"]}}
    with pytest.raises(InvalidError):
        await client.patch(WIDGETS, namespace, "w", more, "merge")
    await client.patch(WIDGETS, namespace, "w", {"metadata": {"finalizers": None}}, "merge")
    with pytest.raises(NotFoundError):
        await client.get(WIDGETS, namespace, "w")


async def does_not_let_a_writer_delete(client: Client, namespace: str) -> None:
    await create(client, namespace, widget("w"))
    going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    with pytest.raises(InvalidError, match=r"metadata\.deletionTimestamp"):
        await client.patch(WIDGETS, namespace, "w", going, "merge")


async def selects_by_labels_and_names(client: Client, namespace: str) -> None:
    for name, labels in {"a": {"tier": "one"}, "b": {"tier": "two"}, "c": {}}.items():
        await create(client, namespace, widget(name, metadata={"labels": labels}))
    found = {
        selector: await listed(client, namespace, labelSelector=selector)
        for selector in ("tier=one", "tier in (one, two)", "tier", "!tier", "tier!=one", "tier notin (one)")
    }
    assert found == {
        "tier=one": ["a"],
        "tier in (one, two)": ["a", "b"],
        "tier": ["a", "b"],
        "!tier": ["c"],
        "tier!=one": ["b", "c"],
        "tier notin (one)": ["b", "c"],
    }
    assert await listed(client, namespace, fieldSelector="metadata.name=b") == ["b"]


async def listed(client: Client, namespace: str, **query: str) -> list[str]:
    page = await client.list_page(WIDGETS, namespace, query)
    return sorted(json.loads(bytes(raw))["metadata"]["name"] for raw in page.items)


async def lists_metadata_alone(client: Client, namespace: str) -> None:
    made = await create(client, namespace, widget("w", spec={"size": 1}))
    page = await client.list_page(WIDGETS, namespace, only_metadata=True)
    (shown,) = (json.loads(bytes(raw)) for raw in page.items)
    assert "spec" not in shown
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]
    assert shown["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def lists_what_there_was_at_a_version(client: Client, namespace: str) -> None:
    await create(client, namespace, widget("changed", spec={"size": 1}))
    await create(client, namespace, widget("gone"))
    version = (await client.list_page(WIDGETS, namespace)).resource_version
    await client.patch(WIDGETS, namespace, "changed", {"spec": {"size": 2}}, "merge")
    await client.delete(WIDGETS, namespace, "gone")
    await create(client, namespace, widget("new"))
    then = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    page = await client.list_page(WIDGETS, namespace, then)
    shown = {one["metadata"]["name"]: one.get("spec") for one in map(json.loads, map(bytes, page.items))}
    assert shown == {"changed": {"size": 1}, "gone": None}
    assert page.resource_version == version
    only = await client.list_page(WIDGETS, namespace, {**then, "fieldSelector": "metadata.name=changed"})
    assert [bytes(raw) for raw in only.items] == [bytes(page.items[0])]


async def watches_what_is_selected(client: Client, namespace: str) -> None:
    version = (await client.list_page(WIDGETS, namespace)).resource_version
    finalizers = ["accelet.dev/free"]
    await create(client, namespace, widget("w", metadata={"labels": {"a": "1"}, "finalizers": finalizers}))
    await client.patch(WIDGETS, namespace, "w", {"metadata": {"labels": {"a": "2"}}}, "merge")
    await client.patch(WIDGETS, namespace, "w", {"metadata": {"labels": {"a": "1"}}}, "merge")
    await client.delete(WIDGETS, namespace, "w")
    await client.patch(WIDGETS, namespace, "w", {"metadata": {"finalizers": []}}, "merge")
    seen: list[str] = []
    query = {"resourceVersion": version, "labelSelector": "a=1"}
    async with asyncio.timeout(20), client.watch(WIDGETS, namespace, query) as watch:
        async for lines in watch:
            events = [json.loads(line) for line in lines]
            seen += [event["type"] for event in events if event["type"] != "BOOKMARK"]
            if len(seen) >= 5:
                break
    assert seen == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


async def knows_not_every_kind(client: Client, namespace: str) -> None:
    with pytest.raises(NotFoundError):
        await client.list_page(UNKNOWN, namespace)


async def gives_slices_no_status_and_claims_one(client: Client, namespace: str) -> None:
    pool = {"name": namespace, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "contract.accelet.dev", "nodeName": namespace, "pool": pool}
    body = {"metadata": {"name": namespace}, "spec": {**spec, "devices": [{"name": "card0"}]}}
    made = json.loads(await client.create(SLICES, None, body))
    more = {"spec": {"devices": [{"name": "card0"}, {"name": "card1"}]}}
    after = json.loads(await client.patch(SLICES, None, namespace, more, "merge"))
    assert (made["metadata"]["generation"], after["metadata"]["generation"]) == (1, 2)
    with pytest.raises(NotFoundError):
        await client.patch(SLICES, None, namespace, {"status": {}}, "merge", subresource="status")
    await client.delete(SLICES, None, namespace)
    exactly = {"deviceClassName": "contract.accelet.dev"}
    claim = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    await client.create(CLAIMS, namespace, claim)
    allocated: Json = {"status": {"allocation": {"devices": {}}}}
    ignored = json.loads(await client.patch(CLAIMS, namespace, "c", allocated, "merge"))
    taken = json.loads(await client.patch(CLAIMS, namespace, "c", allocated, "merge", subresource="status"))
    assert "allocation" not in ignored.get("status", {})
    assert "allocation" in taken["status"]


async def makes_jobs_without_a_status(client: Client, namespace: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    body = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}
    made = json.loads(await client.create(JOBS, namespace, {**body, "status": {"succeeded": 1}}))
    assert made["metadata"]["generation"] == 1
    assert "succeeded" not in made.get("status", {})


async def gives_config_maps_no_generation(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "m"}, "data": {"a": "1"}}
    assert "generation" not in json.loads(await client.create(CONFIG_MAPS, namespace, body))["metadata"]


CHECKS: list[Check] = [
    names_a_generated_object,
    refuses_an_object_without_a_name,
    refuses_what_is_meant_for_another_version,
    refuses_what_is_meant_for_a_predecessor,
    keeps_spec_and_status_apart,
    counts_generations_of_the_spec,
    keeps_what_has_finalizers,
    does_not_let_a_writer_delete,
    selects_by_labels_and_names,
    lists_metadata_alone,
    lists_what_there_was_at_a_version,
    watches_what_is_selected,
    knows_not_every_kind,
    gives_slices_no_status_and_claims_one,
    makes_jobs_without_a_status,
    gives_config_maps_no_generation,
]
