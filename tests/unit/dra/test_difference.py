"""What is written to the API server: exactly what is missing, with one generation for a whole pool."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.dra.names import GPU_DRIVER
from accelet.dra.pool import DevicePool, DeviceTaint
from accelet.dra.publishing.build import build_pool
from accelet.dra.publishing.difference import Difference, Published, compare, index_of
from accelet.dra.publishing.features import ALL, Features, Probing, limit_pool, probe_pool, read_features
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.serverform import NO_REWRITES, after_answer, content_of, describe_rewrite
from accelet.dra.publishing.slices import divide, render_all
from accelet.runtime.backoff import Backoff
from tests.unit.dra.apirules import faults, number
from tests.unit.dra.strategies import GIB, gpu, gpus, small_gpu_nodes

NODE = "node-uid"


class Server:
    """The slices of an API server, which keeps what it is given in a form of its own."""

    def __init__(self, admit: Callable[[dict[str, Any]], None] = lambda _body: None) -> None:
        """`admit` changes what is written, as admission does."""
        self.slices: dict[str, dict[str, Any]] = {}
        self.rewrites = NO_REWRITES
        self._admit = admit
        self._count = 0

    def apply(self, difference: Difference) -> None:
        for old in difference.delete:
            del self.slices[old.name]
        for replacement in difference.replace:
            before = self.slices[replacement.old.name]
            body = self._take(replacement.body)
            assert body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
            self._store(replacement.old.name, before["metadata"]["uid"], body)
        for created in difference.create:
            self._count += 1
            body = self._take(created)
            self._store(f"{body['metadata']['generateName']}{self._count:05}", f"uid-{self._count}", body)

    def published(self) -> list[Published]:
        return [
            Published(
                name,
                body["metadata"]["uid"],
                body["metadata"]["resourceVersion"],
                body["spec"],
                _owner_of(body),
            )
            for name, body in self.slices.items()
        ]

    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body in sorted(self.slices.items())]

    def _store(self, name: str, uid: str, body: dict[str, Any]) -> None:
        self._count += 1
        sent = content_of(copy.deepcopy(body["spec"]), _owner_of(body))
        self._admit(body)
        kept = content_of(body["spec"], _owner_of(body))
        index = index_of(name)
        assert index is not None
        self.rewrites = after_answer(self.rewrites, index, sent, kept)
        metadata = body["metadata"] | {"name": name, "uid": uid, "resourceVersion": str(self._count)}
        self.slices[name] = body | {"metadata": metadata}

    def _take(self, body: Mapping[str, Any]) -> dict[str, Any]:
        taken: dict[str, Any] = json.loads(json.dumps(body))
        for device in taken["spec"].get("devices", ()):
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", f"2026-01-01T00:00:{self._count % 60:02}Z")
            for capacity in device.get("capacity", {}).values():
                if capacity["value"] == "1000":
                    capacity["value"] = "1k"
        return taken


def _owner_of(body: Mapping[str, Any]) -> str:
    return next((str(one["uid"]) for one in body["metadata"].get("ownerReferences", ())), "")


def pool_of(resource: ServedResource) -> DevicePool:
    return build_pool(GPU_DRIVER, "node-1", [resource])


def contents(pool: DevicePool) -> list[list[str]]:
    return [[d.name for d in part.devices] + [c.name for c in part.counter_sets] for part in divide(pool)]


def seen(server: Server) -> list[list[str]]:
    return [
        [d["name"] for d in body["spec"].get("devices", ())]
        + [c["name"] for c in body["spec"].get("sharedCounters", ())]
        for body in server.bodies()
    ]


def assert_published(server: Server, pool: DevicePool) -> None:
    assert seen(server) == contents(pool)
    assert faults(server.bodies()) == []
    assert compare(pool, server.published(), NODE).is_empty


@given(st.lists(small_gpu_nodes, min_size=1, max_size=5))
def test_each_pool_that_follows_another_ends_up_published_whole(nodes: Sequence[ServedResource]) -> None:
    server = Server()
    for node in nodes:
        server.apply(compare(pool_of(node), server.published(), NODE))
        assert_published(server, pool_of(node))


@given(small_gpu_nodes, st.data())
def test_whatever_somebody_deletes_or_changes_is_mended(node: ServedResource, data: st.DataObject) -> None:
    server, pool = Server(), pool_of(node)
    server.apply(compare(pool, server.published(), NODE))
    for name in data.draw(st.sets(st.sampled_from(sorted(server.slices)))):
        if data.draw(st.booleans()):
            del server.slices[name]
        else:
            server.slices[name]["spec"].pop("devices", None)
            server.slices[name]["spec"]["pool"]["generation"] = data.draw(st.integers(0, 9))
    if data.draw(st.booleans()):
        foreign = copy.deepcopy(next(iter(server.slices.values()), None))
        if foreign is not None:
            server.slices["by-hand"] = foreign
    server.apply(compare(pool, server.published(), NODE))
    assert_published(server, pool)


@given(small_gpu_nodes, small_gpu_nodes)
def test_two_generations_are_never_both_complete(one: ServedResource, other: ServedResource) -> None:
    """At no moment of a change do slices of one generation make up a whole that is neither pool."""
    server = Server()
    server.apply(compare(pool_of(one), server.published(), NODE))
    steps = compare(pool_of(other), server.published(), NODE)
    for step in (
        *(Difference(delete=(old,)) for old in steps.delete),
        *(Difference(replace=(new,)) for new in steps.replace),
        *(Difference(create=(body,)) for body in steps.create),
    ):
        server.apply(step)
        newest = max(body["spec"]["pool"]["generation"] for body in server.bodies())
        latest = [b for b in server.bodies() if b["spec"]["pool"]["generation"] == newest]
        if len(latest) == latest[0]["spec"]["pool"]["resourceSliceCount"]:
            told = [
                [d["name"] for d in b["spec"].get("devices", ())]
                + [c["name"] for c in b["spec"].get("sharedCounters", ())]
                for b in latest
            ]
            assert told in (contents(pool_of(one)), contents(pool_of(other)))


def _add_an_attribute(body: dict[str, Any]) -> None:
    for device in body["spec"].get("devices", ()):
        device["attributes"]["example.com/rack"] = {"string": "r1"}


def _lose_the_owner(body: dict[str, Any]) -> None:
    body["metadata"].pop("ownerReferences", None)


def _lose_the_first_device(body: dict[str, Any]) -> None:
    body["spec"]["devices"] = body["spec"].get("devices", [])[1:]


_admissions = st.sampled_from([_add_an_attribute, _lose_the_owner, _lose_the_first_device])


@given(st.lists(small_gpu_nodes, min_size=1, max_size=4), _admissions)
def test_what_admission_makes_of_slices_is_written_once_and_then_left(
    nodes: Sequence[ServedResource], admit: Callable[[dict[str, Any]], None]
) -> None:
    server = Server(admit)
    for node in nodes:
        pool = pool_of(node)
        server.apply(compare(pool, server.published(), NODE, server.rewrites))
        assert compare(pool, server.published(), NODE, server.rewrites).is_empty


@given(small_gpu_nodes, _admissions, st.data())
def test_what_somebody_changes_beside_admission_is_mended(
    node: ServedResource, admit: Callable[[dict[str, Any]], None], data: st.DataObject
) -> None:
    server, pool = Server(admit), pool_of(node)
    server.apply(compare(pool, server.published(), NODE))
    name = data.draw(st.sampled_from(sorted(server.slices)))
    before = copy.deepcopy(server.slices[name]["spec"])
    server.slices[name]["spec"]["devices"] = [{"name": "by-hand"}]
    difference = compare(pool, server.published(), NODE, server.rewrites)
    assert not difference.is_empty
    server.apply(difference)
    assert server.slices[name]["spec"] == before


def test_what_admission_changes_is_told_by_its_place() -> None:
    sent = {"devices": [{"name": "a", "attributes": {"x": {"int": 1}}}], "pool": {"generation": 1}}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"attributes": {"x": {"int": 2}}}, "it changes spec.devices[0].attributes.x.int"),
        ({"attributes": {"x": {"int": 1}, "y": {"int": 1}}}, "it adds spec.devices[0].attributes.y"),
        ({"attributes": {}}, "it removes spec.devices[0].attributes"),
    ]
    for change, said in changes:
        kept = {**sent, "devices": [{"name": "a", **change}]}
        assert describe_rewrite(content_of(sent, NODE), content_of(kept, NODE)) == said
    assert describe_rewrite(content_of(sent, NODE), content_of(sent, "")) == "it changes the owner"
    more = {**sent, "devices": [*sent["devices"], {"name": "b"}]}
    assert describe_rewrite(content_of(sent, NODE), content_of(more, NODE)) == "it adds spec.devices[1]"


def test_a_server_that_dropped_fields_is_asked_again_after_waits_that_double() -> None:
    probing = Probing(Backoff(60.0, 900.0))
    assert probing.due_s is None
    waits = []
    for _ in range(6):
        probing = probing.dropped(1000.0)
        assert probing.due_s is not None
        waits.append(probing.due_s - 1000.0)
    assert waits == [60, 120, 240, 480, 900, 900]
    assert probing.kept_all().due_s is None
    assert probing.kept_all().dropped(0.0).due_s == 900


def test_each_field_that_a_server_drops_shows_in_its_answer_to_the_probe() -> None:
    bodies = render_all(probe_pool(GPU_DRIVER, "node-1"))
    assert faults([_stored(body) for body in bodies]) == []
    for kept in (ALL, Features(counters=False), Features(shares=False), Features(taints=False)):
        seen = ALL
        for body in bodies:
            seen &= read_features(body["spec"], drop(body, kept)["spec"])
        assert seen == kept


def _stored(body: Mapping[str, Any]) -> dict[str, Any]:
    server = Server()
    owned = {**body["metadata"], "ownerReferences": [{"uid": NODE}]}
    server.apply(Difference(create=({**body, "metadata": owned},)))
    (stored,) = server.bodies()
    return stored


def test_a_single_changed_slice_keeps_the_generation() -> None:
    server, pool = Server(), pool_of(gpus(gpu(3, tiles=2)))
    server.apply(compare(pool, server.published(), NODE))
    unit = gpu(3)[0].unit
    difference = compare(
        pool.with_taints({unit: (DeviceTaint("unhealthy", "NoSchedule"),)}), server.published(), NODE
    )
    assert [replacement.body["spec"]["pool"]["generation"] for replacement in difference.replace] == [1]  # type: ignore[index]
    assert (difference.delete, difference.create) == ((), ())


def test_the_time_of_a_taint_that_stays_is_kept() -> None:
    server, pool = Server(), pool_of(gpus(gpu(3), gpu(4)))
    first = {gpu(3)[0].unit: (DeviceTaint("unhealthy", "NoSchedule"),)}
    server.apply(compare(pool.with_taints(first), server.published(), NODE))
    time = server.bodies()[1]["spec"]["devices"][0]["taints"][0]["timeAdded"]
    both = first | {gpu(4)[0].unit: (DeviceTaint("lost", "NoExecute"),)}
    server.apply(compare(pool.with_taints(both), server.published(), NODE))
    devices = server.bodies()[1]["spec"]["devices"]
    assert devices[0]["taints"][0]["timeAdded"] == time
    assert devices[1]["taints"][0]["timeAdded"] != time


def test_slices_of_a_node_that_was_replaced_get_the_new_owner() -> None:
    server, pool = Server(), pool_of(gpus(gpu(3)))
    server.apply(compare(pool, server.published(), NODE))
    server.apply(compare(pool, server.published(), "another-uid"))
    assert {one.owner for one in server.published()} == {"another-uid"}


@given(small_gpu_nodes, st.booleans(), st.booleans(), st.booleans())
def test_a_server_that_drops_fields_is_found_out_and_served(
    node: ServedResource, counters: bool, shares: bool, taints: bool
) -> None:
    pool = pool_of(node).with_taints({})
    kept = Features(counters, shares, taints)
    answers = [drop(body, kept) for body in render_all(pool)]
    seen = ALL
    for asked, answered in zip(render_all(pool), answers, strict=True):
        seen &= read_features(asked["spec"], answered["spec"])
    limited = limit_pool(pool, seen)
    bodies = render_all(limited)
    assert [drop(body, kept) for body in bodies] == list(bodies)
    assert faults(bodies) == []
    if not counters:
        wholes = [device for device in limited.devices if device.is_exclusive]
        assert sum(len(d.atoms) for d in wholes) == len({atom for d in wholes for atom in d.atoms})


def test_a_sick_card_is_left_out_where_there_are_no_taints() -> None:
    sick = (DeviceTaint("unhealthy", "NoSchedule"),)
    pool = pool_of(gpus(gpu(3), gpu(4))).with_taints({gpu(3)[0].unit: sick})
    limited = limit_pool(pool, Features(taints=False))
    assert [device.name for device in limited.devices if device.kind == "gpu"] == ["gpu-0000-04-00-0"]


def test_amounts_are_compared_as_numbers() -> None:
    server, pool = Server(), pool_of(gpus(gpu(3, memory=64 * GIB)))
    server.apply(compare(pool, server.published(), NODE))
    capacity = server.bodies()[1]["spec"]["devices"][0]["capacity"]["millicores"]
    assert capacity["value"] == "1k"
    assert number("1k") == 1000
    assert compare(pool, server.published(), NODE).is_empty


def drop(body: Mapping[str, Any], kept: Features) -> dict[str, Any]:
    """What a server without these features stores of a slice."""
    stored: dict[str, Any] = json.loads(json.dumps(body))
    if not kept.counters:
        stored["spec"].pop("sharedCounters", None)
    for device in stored["spec"].get("devices", ()):
        if not kept.counters:
            device.pop("consumesCounters", None)
        if not kept.taints:
            device.pop("taints", None)
        if not kept.shares:
            device.pop("allowMultipleAllocations", None)
            for capacity in device.get("capacity", {}).values():
                capacity.pop("requestPolicy", None)
    return stored
