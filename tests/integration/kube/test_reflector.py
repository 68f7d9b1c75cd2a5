import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import settings

from accelet.fakeapi import Answer, Drop, FakeApi, Fault, Hang, HoldBack
from accelet.kube.apiresources import PODS
from accelet.kube.barepod import parse_bare_pod
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, KubeError, MalformedObjectError, ObjectFaultError
from accelet.kube.objects import Page, read_page
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.watching.comparing import MOST_CHANGED
from accelet.kube.watching.pace import Pace
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change
from tests.fakes.clocks import FakeClock, settle
from tests.fakes.manifests import raw_pod
from tests.integration.kube.waiting import eventually
from tests.unit.kube.test_nesting import deep_pod

PODS_PATH = "api/v1/pods"
FAST = Pace(
    first_s=0.002, most_s=0.02, healthy_s=0.05, refused_s=(0.01, 0.02), refused_again_s=0.02, longest_s=0.05
)


class Seen:
    """Everything a reflector has told."""

    def __init__(self) -> None:
        self.changes: list[Change[Pod]] = []
        self.faults: list[KubeError] = []
        self.position = ""
        self.added: list[str] = []
        self.deleted: list[Pod] = []

    def note_watched(self, resource_version: str, added: str, deleted: Pod | None) -> None:
        self.position = resource_version
        self.added += [added] if added else []
        self.deleted += [deleted] if deleted is not None else []

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(change.kind, change.key[1]) for change in self.changes]


@asynccontextmanager
async def reflecting(
    client: Source,
    seen: Seen | None = None,
    pace: Pace = FAST,
    *,
    parse: Callable[[msgspec.Raw], Pod] = parse_pod,
    salvage: Callable[[msgspec.Raw], Pod] | None = None,
    earlier: Sequence[str] = (),
    **scope: Any,
) -> AsyncIterator[Reflector[Pod]]:
    seen = seen or Seen()
    reflector = Reflector(
        client,
        Scope(PODS, **scope),
        parse,
        changed=seen.changes.append,
        failed=seen.faults.append,
        watched=seen.note_watched if earlier else None,
        salvage=salvage,
        pace=pace,
        uniform=random.Random(1).uniform,
        earlier=earlier,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def create(api: FakeApi, name: str, **spec: Any) -> None:
    api.state.create(PODS_PATH, "ml", raw_pod(name, **spec))


def delete(api: FakeApi, name: str) -> None:
    api.state.delete(PODS_PATH, ("ml", name))


def label(api: FakeApi, name: str, value: str) -> None:
    api.state.patch(PODS_PATH, ("ml", name), "merge-patch", {"metadata": {"labels": {"step": value}}})


def truth(api: FakeApi) -> dict[tuple[str, str], Pod]:
    return {key: parse_pod(raw) for key, raw in api.state.collection(PODS_PATH).objects.items()}


def equals(reflector: Reflector[Pod], api: FakeApi) -> bool:
    return {pod.key: pod for pod in reflector.store} == truth(api)


async def test_store_follows_the_server(client: Client, api: FakeApi) -> None:
    seen = Seen()
    create(api, "a")
    async with reflecting(client, seen, page_size=2) as reflector:
        await reflector.synced()
        create(api, "b")
        label(api, "a", "1")
        delete(api, "b")
        await eventually(lambda: len(seen.changes) == 4)
        assert equals(reflector, api)
    assert seen.kinds == [("added", "a"), ("added", "b"), ("modified", "a"), ("deleted", "b")]
    assert seen.faults == []


async def test_selectors_keep_the_rest_away(client: Client, api: FakeApi) -> None:
    create(api, "here", nodeName="n1")
    create(api, "there", nodeName="n2")
    async with reflecting(client, field_selector="spec.nodeName=n1", starts_from_cache=True) as reflector:
        await reflector.synced()
        create(api, "unbound")
        create(api, "later")
        api.state.patch(PODS_PATH, ("ml", "later"), "merge-patch", {"spec": {"nodeName": "n1"}})
        await eventually(lambda: len(reflector.store) == 2)
        assert {pod.name for pod in reflector.store} == {"here", "later"}
    query = api.seen[0].query
    assert (query["resourceVersion"], query["resourceVersionMatch"]) == ("1", "NotOlderThan"), "in pages"


async def test_bookmarks_are_heard_and_a_silent_or_broken_watch_is_not(client: Client, api: FakeApi) -> None:
    async with reflecting(client) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        first_s = reflector.heard_s
        await eventually(lambda: reflector.heard_s > first_s)
        dead = Fault(Drop(), times=1_000_000)
        api.faults.append(dead)
        api.end_watches(broken=True)
        await eventually(lambda: dead.hits > 2)
        heard_s = reflector.heard_s
        await eventually(lambda: dead.hits > 6)
        assert reflector.heard_s == heard_s
        api.faults.remove(dead)
        await eventually(lambda: reflector.heard_s > heard_s)


async def test_watch_resumes_where_it_was(client: Client, api: FakeApi) -> None:
    async with reflecting(client) as reflector:
        await reflector.synced()
        for broken in (False, True):
            await eventually(lambda: api.streams == 1)
            api.end_watches(broken=broken)
            create(api, f"p-{broken}")
            await eventually(lambda: equals(reflector, api))
    assert api.count(watch=False) == 1, "listed once"


async def test_watch_from_before_the_first_list_tells_what_was_deleted_until_then(
    client: Client, api: FakeApi
) -> None:
    create(api, "other")
    before = api.state.collection(PODS_PATH).objects["ml", "other"]["metadata"]["resourceVersion"]
    create(api, "db-0")
    delete(api, "db-0")
    create(api, "db-0")
    seen = Seen()
    async with reflecting(client, seen, earlier=[before, "999999"]) as reflector:
        await reflector.synced()
        last = truth(api)["ml", "db-0"].resource_version
        await eventually(lambda: seen.position == last)
        (gone,) = seen.deleted
        assert gone.name == "db-0"
        assert seen.added == [gone.uid, truth(api)["ml", "db-0"].uid]
        assert gone.uid != truth(api)["ml", "db-0"].uid
        assert reflector.is_before_first_list(gone.resource_version)
        assert sorted(seen.kinds) == [("added", "db-0"), ("added", "other")]
        delete(api, "db-0")
        await eventually(lambda: len(seen.deleted) == 2)
        assert not reflector.is_before_first_list(seen.deleted[1].resource_version)


async def test_versions_that_are_too_old_are_passed_over_without_a_wait(client: Client, api: FakeApi) -> None:
    create(api, "one")
    api.state.compact()
    create(api, "two")
    seen = Seen()
    slow = Pace(first_s=60.0, most_s=120.0)
    async with reflecting(client, seen, slow, earlier=["1"]) as reflector:
        await reflector.synced()
        create(api, "three")
        await eventually(lambda: ("added", "three") in seen.kinds)
        assert not reflector.is_before_first_list(truth(api)["ml", "three"].resource_version)


async def test_silent_connection_is_left_for_a_new_one_and_nothing_is_lost(
    impatient_client: Client, api: FakeApi
) -> None:
    seen = Seen()
    async with reflecting(impatient_client, seen) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        api.is_stalled = True
        create(api, "meanwhile")
        await eventually(lambda: api.count(watch=True) == 3)
        assert len(reflector.store) == 0
        api.is_stalled = False
        await eventually(lambda: equals(reflector, api))
    assert seen.faults == []
    assert api.count(watch=False) == 1, "listed once"


@pytest.mark.parametrize("as_event", [True, False])
async def test_expired_version_leads_to_a_list_with_its_deletions(
    client: Client, api: FakeApi, *, as_event: bool
) -> None:
    api.sends_gone_as_event = as_event
    seen = Seen()
    create(api, "gone")
    create(api, "kept")
    async with reflecting(client, seen) as reflector:
        await reflector.synced()
        api.faults.append(Fault(Answer(503, "Down"), watch=True, times=3))
        api.end_watches()
        delete(api, "gone")
        delete(api, "kept")
        create(api, "kept")
        create(api, "new")
        api.state.compact()
        await eventually(lambda: equals(reflector, api))
    assert sorted(seen.kinds[2:]) == [
        ("added", "kept"),
        ("added", "new"),
        ("deleted", "gone"),
        ("deleted", "kept"),
    ]


async def test_pages_that_expire_lead_to_one_list_in_one_piece(client: Client, api: FakeApi) -> None:
    for number in range(5):
        create(api, f"p{number}")
    api.faults.append(Fault(Answer(410, "Expired"), watch=False, times=1))
    async with reflecting(client, page_size=2) as reflector:
        await reflector.synced()
        assert equals(reflector, api)
    assert "limit" not in api.seen[1].query


async def test_refusal_gets_two_requests_in_ten_seconds_and_comes_back(client: Client, api: FakeApi) -> None:
    """Ten times as fast, so that it takes one second."""
    quick = Pace(first_s=0.08, most_s=3.0, healthy_s=1.0, refused_s=(0.2, 0.4), refused_again_s=1.0)
    fault = Fault(Answer(403, "Forbidden", "no"), times=1000)
    api.faults.append(fault)
    seen = Seen()
    async with reflecting(client, seen, quick) as reflector:
        await eventually(lambda: len(seen.faults) == 3)
        first_s, second_s, third_s = (request.at_s for request in api.seen[:3])
        assert second_s - first_s >= 0.2
        assert third_s - first_s > 1.0, "two in this time, however late the machine makes them"
        assert all(isinstance(error, ForbiddenError) for error in seen.faults)
        assert not reflector.is_synced
        api.faults.clear()
        await asyncio.wait_for(reflector.synced(), 30.0)


async def test_malformed_object_is_reported_and_loses_nothing_else(client: Client, api: FakeApi) -> None:
    seen = Seen()
    create(api, "good")
    create(api, "bad-from-the-start", priority="high")
    async with reflecting(client, seen) as reflector:
        await reflector.synced()
        create(api, "bad-later", tolerations="all")
        create(api, "good-later")
        await eventually(lambda: len(reflector.store) == 2)
        delete(api, "bad-later")
        api.state.patch(PODS_PATH, ("ml", "good"), "merge-patch", {"spec": {"priority": "high"}})
        create(api, "last")
        await eventually(lambda: len(reflector.store) == 3)
        assert reflector.store.get(("ml", "good")) is not None, "its last readable form stays"
    assert all(isinstance(fault, MalformedObjectError) for fault in seen.faults)
    assert [fault.name for fault in seen.faults if isinstance(fault, MalformedObjectError)] == [
        "bad-from-the-start",
        "bad-later",
        "good",
    ]


async def test_a_fault_of_the_parser_is_that_objects_own(client: Client, api: FakeApi) -> None:
    def parse(raw: msgspec.Raw) -> Pod:
        pod = parse_pod(raw)
        if pod.name.startswith("bad"):
            raise OverflowError("int too large to convert")
        return pod

    seen = Seen()
    create(api, "bad-from-the-start")
    create(api, "good")
    async with reflecting(client, seen, parse=parse) as reflector:
        await reflector.synced()
        create(api, "bad-later")
        create(api, "last")
        await eventually(lambda: len(reflector.store) == 2)
    assert [(type(fault), str(fault)) for fault in seen.faults] == [
        (MalformedObjectError, "Pod ml/bad-from-the-start: cannot be read (OverflowError)"),
        (MalformedObjectError, "Pod ml/bad-later: cannot be read (OverflowError)"),
    ]


async def test_a_fault_in_taking_an_object_over_is_that_objects_own(client: Client, api: FakeApi) -> None:
    seen = Seen()

    def take(change: Change[Pod]) -> None:
        if change.key[1].startswith("bad"):
            raise KeyError(change.key)
        seen.changes.append(change)

    create(api, "bad-from-the-start")
    create(api, "good")
    reflector = Reflector(client, Scope(PODS), parse_pod, changed=take, failed=seen.faults.append, pace=FAST)
    task = asyncio.create_task(reflector.run())
    await reflector.synced()
    create(api, "bad-later")
    create(api, "last")
    await eventually(lambda: len(reflector.store) == 4)
    await eventually(lambda: len(seen.changes) == 2)
    await reflector.refresh()
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [change.key[1] for change in seen.changes] == ["good", "last"]
    assert [(type(fault), str(fault)) for fault in seen.faults] == [
        (ObjectFaultError, "Pod ml/bad-from-the-start cannot be taken over: KeyError"),
        (ObjectFaultError, "Pod ml/bad-later cannot be taken over: KeyError"),
    ]


class Transcript:
    """A source that says what it is given, word for word: no fake in Python holds objects so deep."""

    def __init__(self, page: bytes, *lines: bytes) -> None:
        self._page, self._lines = page, list(lines)

    async def list_pages(self, *_: object, only_metadata: bool = False) -> AsyncIterator[Page]:
        yield read_page(self._page, "Pod")

    @asynccontextmanager
    async def watch(self, *_: object) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[list[bytes]]:
        yield self._lines
        await asyncio.Event().wait()


async def test_deeply_nested_object_is_one_like_the_others() -> None:
    page = b'{"items": [' + deep_pod("first") + b'], "metadata": {"resourceVersion": "1"}}'
    later = (deep_pod("second"), deep_pod("third").replace(b'"17"', b'"18"'))
    events = [b'{"type": "ADDED", "object": ' + pod + b"}" for pod in later]
    seen = Seen()
    async with reflecting(Transcript(page, *events), seen) as reflector:
        await eventually(lambda: len(reflector.store) == 3)
    assert seen.kinds == [("added", "first"), ("added", "second"), ("added", "third")]
    assert seen.faults == []


async def test_of_a_malformed_object_never_seen_before_what_can_be_is_saved(
    client: Client, api: FakeApi
) -> None:
    seen = Seen()
    create(api, "good", nodeName="n0", priority=3)
    create(api, "bad", nodeName="n0", priority="high")
    async with reflecting(client, seen, salvage=parse_bare_pod) as reflector:
        await reflector.synced()
        bad = reflector.store.get(("ml", "bad"))
        assert bad is not None
        assert (bad.key, bad.node_name) == (("ml", "bad"), "n0")
        api.state.patch(PODS_PATH, ("ml", "good"), "merge-patch", {"spec": {"priority": "high"}})
        await eventually(lambda: len(seen.faults) == 2)
        good = reflector.store.get(("ml", "good"))
        assert good is not None
        assert good.priority == 3, "its last readable form stays"


async def test_refresh_overtakes_a_lagging_watch_and_nothing_comes_twice(
    client: Client, api: FakeApi
) -> None:
    seen = Seen()
    create(api, "a")
    async with reflecting(client, seen) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        api.is_stalled = True
        create(api, "b")
        delete(api, "a")
        create(api, "c")
        delete(api, "c")
        await reflector.refresh()
        assert equals(reflector, api)
        api.is_stalled = False
        create(api, "d")
        await eventually(lambda: equals(reflector, api))
    assert seen.kinds == [("added", "a"), ("deleted", "a"), ("added", "b"), ("added", "d")]


async def test_refresh_that_compares_first_reads_only_what_has_changed(client: Client, api: FakeApi) -> None:
    seen = Seen()
    for name in ("same", "changed", "gone"):
        create(api, name, nodeName="n1")
    async with reflecting(client, seen, field_selector="spec.nodeName=n1", compares_first=True) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        api.is_stalled = True
        delete(api, "gone")
        label(api, "changed", "new")
        create(api, "new", nodeName="n1")
        create(api, "elsewhere", nodeName="n2")
        before = len(api.seen)
        await reflector.refresh()
        assert {pod.name for pod in reflector.store} == {"same", "changed", "new"}
        changed = reflector.store.get(("ml", "changed"))
        assert changed is not None
        assert changed.labels["step"] == "new"
        read = [request.query.get("fieldSelector", "") for request in api.seen[before:]]
        assert read == ["spec.nodeName=n1"] + [
            f"spec.nodeName=n1,metadata.name={name}" for name in ("changed", "new")
        ]


async def test_refresh_that_finds_much_changed_lists_everything(client: Client, api: FakeApi) -> None:
    async with reflecting(client, compares_first=True) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        api.is_stalled = True
        for number in range(MOST_CHANGED + 1):
            create(api, f"p{number}")
        before = len(api.seen)
        await reflector.refresh()
        assert equals(reflector, api)
        assert len(api.seen) == before + 2


async def test_refresh_that_compares_first_is_of_one_version(client: Client, api: FakeApi) -> None:
    """What happens after the names were listed is the watch's to tell, and is told once."""
    seen = Seen()
    create(api, "a")
    async with reflecting(client, seen, compares_first=True) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        api.is_stalled = True
        label(api, "a", "1")
        listed = HoldBack()
        api.faults.append(Fault(listed, watch=False, times=1))
        refreshing = asyncio.create_task(reflector.refresh())
        await eventually(listed.is_made.is_set)
        label(api, "a", "2")
        listed.released.set()
        await refreshing
        api.is_stalled = False
        await eventually(lambda: equals(reflector, api))
    assert [change.after.labels.get("step") for change in seen.changes if change.after] == [None, "1", "2"]


async def test_list_that_the_watch_has_overtaken_takes_nothing_back(client: Client, api: FakeApi) -> None:
    seen = Seen()
    create(api, "a")
    create(api, "b")
    async with reflecting(client, seen) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        late = HoldBack()
        api.faults.append(Fault(late, watch=False))
        refreshing = asyncio.create_task(reflector.refresh())
        await eventually(late.is_made.is_set)
        delete(api, "a")
        label(api, "b", "new")
        create(api, "c")
        await eventually(lambda: equals(reflector, api))
        told = len(seen.changes)
        late.released.set()
        await refreshing
        assert equals(reflector, api)
        assert len(seen.changes) == told


async def test_refresh_that_fails_leaves_the_store(client: Client, api: FakeApi) -> None:
    create(api, "a")
    async with reflecting(client) as reflector:
        await reflector.synced()
        api.faults.append(Fault(Answer(500), watch=False))
        with pytest.raises(KubeError):
            await reflector.refresh()
        assert equals(reflector, api)


async def test_bookmarks_keep_the_store_current(client: Client, api: FakeApi) -> None:
    async with reflecting(client) as reflector:
        await reflector.synced()
        create(api, "a")
        version = str(api.state.version)
        api.state.create("api/v1/nodes", "", {"metadata": {"name": "n"}})
        await eventually(lambda: reflector.store.resource_version > version)


async def test_waits_go_by_the_given_clock(client: Client, api: FakeApi) -> None:
    clock = FakeClock()
    failures: list[KubeError] = []
    api.faults.append(Fault(Answer(500), watch=False))
    reflector = Reflector(client, Scope(PODS), parse_pod, failed=failures.append, clock=clock)
    task = asyncio.create_task(reflector.run())
    try:
        await clock.advance(0.0)
        await eventually(lambda: len(failures) == 1)
        await settle()
        assert api.count(path="pods") == 1
        await clock.advance(60.0)
        await eventually(lambda: reflector.is_synced)
    finally:
        task.cancel()


async def test_versions_that_go_backwards_lead_to_a_list(client: Client, api: FakeApi) -> None:
    """As when the API server's database was restored from a backup."""
    create(api, "a")
    create(api, "b")
    async with reflecting(client) as reflector:
        await reflector.synced()
        await eventually(lambda: api.streams == 1)
        with api.state.changed:
            api.state.version = 10
            api.state.collection(PODS_PATH).log.clear()
            api.state.collection(PODS_PATH).objects.clear()
            create(api, "restored")
        api.faults.append(Fault(Answer(410, "Expired"), watch=True))
        api.end_watches()
        await eventually(lambda: equals(reflector, api))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(Hang(), watch=False),
        Fault(Hang(), watch=True),
        Fault(Answer(403), watch=False),
        Fault(Answer(500), watch=True),
        None,
    ],
)
async def test_reflector_stops_at_once_in_every_state(
    client: Client, api: FakeApi, fault: Fault | None
) -> None:
    api.faults = [fault] if fault else []
    waited_for_s = 2.0
    async with asyncio.timeout(waited_for_s), reflecting(client, pace=Pace()):
        await eventually(lambda: api.streams == 1 if fault is None else fault.hits == 1)


FAULTS = (Answer(500), Answer(503), Answer(429, retry_after_s=0), Answer(410, "Expired"), Drop(), Answer(403))


@pytest.mark.hypothesis
@pytest.mark.parametrize("seed", range(settings().max_examples // 4))
async def test_once_quiet_the_store_equals_the_server(client: Client, api: FakeApi, seed: int) -> None:
    chance = random.Random(seed)
    seen = Seen()
    api.bookmark_s = chance.choice([0.003, 0.02, None])
    page_size, compares_first = chance.choice([1, 2, 50]), chance.random() < 0.5
    async with reflecting(client, seen, page_size=page_size, compares_first=compares_first) as reflector:
        for _ in range(chance.randrange(10, 60)):
            disturb(api, chance)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice([0, 0.001, 0.01]))
            if chance.random() < 0.1:
                await asyncio.gather(reflector.refresh(), return_exceptions=True)
        api.faults.clear()
        api.is_stalled = False
        await eventually(lambda: equals(reflector, api))
        replayed: dict[tuple[str, str], Pod | None] = {}
        for change in seen.changes:
            assert (change.before is None) == (change.kind == "added")
            assert replayed.get(change.key) == change.before, "changes join up without a gap"
            replayed[change.key] = change.after
        assert {key: pod for key, pod in replayed.items() if pod} == truth(api)


def disturb(api: FakeApi, chance: random.Random) -> None:
    names = [name for _, name in api.state.collection(PODS_PATH).objects]
    match chance.randrange(10):
        case 0 | 1 | 2:
            name = f"p{chance.randrange(8)}"
            if name not in names:
                create(api, name)
        case 3 | 4 if names:
            label(api, chance.choice(names), str(chance.random()))
        case 5 if names:
            delete(api, chance.choice(names))
        case 6:
            api.state.compact()
        case 7:
            api.end_watches(broken=chance.random() < 0.5)
        case 8:
            api.is_stalled = chance.random() < 0.3
        case 9:
            times, watch = chance.randrange(1, 4), chance.choice([True, False, None])
            api.faults.append(Fault(chance.choice(FAULTS), watch=watch, times=times))
