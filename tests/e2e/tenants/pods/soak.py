"""2,000 random actions of three tenants, while a fourth only wants her pods placed: `make soak-tenants`.

Scheduler and agent run with their real memory limits. Throughout: no assignment beyond what is asked for and
the quota allows, no tile twice, no process ended, and nobody waits whose node has room.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random

import pytest

from accelet.scheduler.gangs.grouping import GANG_SIZE, GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import two_tile_cards
from tests.e2e.tenants.installation import (
    CARD,
    TILES,
    Tenant,
    assigned_tiles,
    make_tenant,
    pod,
    remove_tenant,
    tile_pod,
)
from tests.e2e.tenants.pods.processes import REAL, RunningProcess, real_pod
from tests.e2e.tenants.test_absurd_values import DIGITS, deep_pod, may_resize

ACTIONS = int(os.environ.get("ACCELET_SOAK_ACTIONS", "2000"))
SEED = int(os.environ.get("ACCELET_SOAK_SEED", "1"))
LOOK_EVERY = 25
QUOTA_TILES = 6
QUOTA: Mapping[str, str] = {
    "pods": "40",
    f"requests.{TILES}": str(QUOTA_TILES),
    f"requests.{CARD}": "12",
    "count/jobs.batch": "10",
    "configmaps": "30",
}
HERS = "tenants-hers"
"""The node that takes nobody but the fourth, so that there is room for her at all times."""

WAITS_S = 30.0
Say = Callable[[str], None]
Action = Callable[["Intruder"], None]

pytestmark = pytest.mark.timeout(3000)


class Intruder:
    """A tenant at work; what the API server refuses her is counted."""

    def __init__(self, tenant: Tenant, random: Random) -> None:
        self.tenant, self.random = tenant, random
        self.made = 0
        self.outcomes: Counter[str] = Counter()

    def send(self, method: str, path: str, body: Json | None = None) -> None:
        try:
            self.tenant.client.send(method, path, body)
            self.outcomes["done"] += 1
        except RefusedError as error:
            assert error.status < 500, error  # noqa: PT017 - who refuses must not fail itself
            self.outcomes[str(error.status)] += 1

    def name(self) -> str:
        self.made += 1
        return f"p{self.made}"

    def some(self, kind: str) -> str | None:
        """The path of one of her objects."""
        items = json.loads(self.tenant.client.send("GET", self.tenant.path(kind)))["items"]
        return self.tenant.path(kind, self.random.choice(items)["metadata"]["name"]) if items else None


def make_pod(who: Intruder) -> None:
    asked = who.random.choice(
        [
            {TILES: "1"},
            {TILES: "2"},
            {CARD: "1"},
            {"gpu.intel.com/millicores": "300"},
            {CARD: "2", TILES: "2"},
        ]
    )
    body = pod(who.name(), asked) if who.random.random() < 0.7 else real_pod(who.name(), asked)
    body["spec"]["terminationGracePeriodSeconds"] = who.random.choice([0, 0, 5, 9_000_000_000])
    if who.random.random() < 0.1:
        body["spec"]["nodeName"] = who.random.choice([REAL, HERS, "tenants-a"])
    if who.random.random() < 0.2:
        body["metadata"]["annotations"] = {who.random.choice(["gas-allow", "gas-deny", "gas-ts"]): "card1"}
    who.send("POST", who.tenant.path("Pod"), body)


def make_gang(who: Intruder) -> None:
    size, gate = who.random.choice([2, 8, 64]), who.name()
    for rank in range(3):
        body = pod(f"{gate}-{rank}", {"cpu": str(who.random.choice([1, 3, 7]))}, labels={"job-name": gate})
        body["metadata"]["annotations"] = {GANG_SIZE: str(size)}
        body["spec"]["schedulingGates"] = [{"name": f"{GATE_PREFIX}{gate}"}]
        who.send("POST", who.tenant.path("Pod"), body)


def make_absurd(who: Intruder) -> None:
    name = who.name()
    gated = tile_pod(name, annotations={who.random.choice([GANG_SIZE, REQUIRED_LEVEL, "gas-deny"]): DIGITS})
    gated["spec"]["schedulingGates"] = [{"name": f"{GATE_PREFIX}{name}"}]
    large = pod(name)
    large["spec"]["containers"][0]["env"] = [{"name": f"V{n}", "value": "x" * 100_000} for n in range(13)]
    bodies = [
        pod(name, {who.random.choice(["x.y/z", TILES, CARD]): DIGITS}),
        pod(name, {"memory": "1e10001"}),
        deep_pod(name, 600),
        gated,
        large,
    ]
    who.send("POST", who.tenant.path("Pod"), who.random.choice(bodies))


def make_job(who: Intruder) -> None:
    count = who.random.choice([1, 3, 5])
    template = pod("", {TILES: "1"})
    template["metadata"] = {"annotations": {"accelet.dev/assignment": "{}"} if count == 5 else {}}
    template["spec"]["restartPolicy"] = "Never"
    if count == 3:
        template["spec"]["schedulingGates"] = [{"name": f"{GATE_PREFIX}{who.name()}"}]
    spec = {"completions": count, "parallelism": count, "completionMode": "Indexed", "template": template}
    who.send("POST", who.tenant.path("Job"), {"metadata": {"name": who.name()}, "spec": spec})


def make_config_map(who: Intruder) -> None:
    name = who.random.choice([who.name(), f"accelet-plan-{who.random.randrange(16**4):x}"])
    labels = who.random.choice([{}, {"accelet.dev/placement-plan": "v1"}])
    body = {"metadata": {"name": name, "labels": labels}, "data": {"plan.json": DIGITS}}
    who.send("POST", who.tenant.path("ConfigMap"), body)


def patch_pod(who: Intruder) -> None:
    note = who.random.choice(["accelet.dev/assignment", "gas-container-tiles", "gas-allow", GANG_SIZE, "x"])
    patches: Sequence[Json] = [
        {"metadata": {"annotations": {note: who.random.choice(["{}", DIGITS, "card0", None])}}},
        {"metadata": {"labels": {"job-name": who.random.choice(["a", "b"])}}},
        {"spec": {"schedulingGates": None}},
        {"metadata": {"finalizers": None}},
    ]
    if path := who.some("Pod"):
        who.send("PATCH", path + who.random.choice(["", "/status"]), who.random.choice(patches))


def resize_pod(who: Intruder) -> None:
    if path := who.some("Pod"):
        with suppress(RefusedError):
            seen = json.loads(who.tenant.client.send("GET", path))
            limits = seen["spec"]["containers"][0]["resources"].setdefault("limits", {})
            limits["memory"] = who.random.choice(["1Mi", "1e10001", "1Gi"])
            who.send("PUT", f"{path}/resize", seen)


def delete(kind: str, *, by_force: bool = False) -> Action:
    def act(who: Intruder) -> None:
        if path := who.some(kind):
            body = {"gracePeriodSeconds": 0} if by_force else {"propagationPolicy": "Background"}
            who.send("DELETE", path, body)

    return act


DEEDS: Sequence[tuple[int, Action]] = (
    (30, make_pod),
    (6, make_gang),
    (8, make_absurd),
    (5, make_job),
    (6, make_config_map),
    (12, patch_pod),
    (6, resize_pod),
    (10, delete("Pod")),
    (14, delete("Pod", by_force=True)),
    (4, delete("Job")),
    (5, delete("ConfigMap")),
)


@pytest.fixture(autouse=True)
def idle_node() -> None:
    """Nothing comes after: containers with a grace period of 285 years, as some have, end with the node."""


@pytest.fixture
def intruders(control_plane: ControlPlane) -> Iterator[Sequence[Intruder]]:
    tenants = [make_tenant(control_plane, name) for name in ("mallory", "trudy", "eve")]
    for tenant in tenants:
        may_resize(control_plane, tenant)
        quota = {"metadata": {"name": "quota"}, "spec": {"hard": dict(QUOTA)}}
        path = f"/api/v1/namespaces/{tenant.namespace}/resourcequotas"
        control_plane.client.send("POST", path, quota)
    yield [Intruder(tenant, Random(f"{SEED}-{index}")) for index, tenant in enumerate(tenants)]
    for tenant in tenants:
        remove_tenant(control_plane, tenant)


@pytest.fixture
def her_node(control_plane: ControlPlane) -> Iterator[None]:
    with card_nodes(control_plane.client, {HERS: two_tile_cards()}):
        change = {
            "spec": {"taints": [{"key": HERS, "effect": "NoSchedule"}]},
            "metadata": {"labels": {HERS: "y"}},
        }
        control_plane.client.send("PATCH", f"/api/v1/nodes/{HERS}", change)
        yield


def live_pods(client: Client) -> list[Json]:
    items = json.loads(client.send("GET", "/api/v1/pods"))["items"]
    return [one for one in items if one["status"].get("phase") not in ("Succeeded", "Failed")]


def asked_tiles(seen: Json) -> int:
    limits = (each["resources"].get("limits", {}) for each in seen["spec"]["containers"])
    return sum(int(each.get(TILES, 0)) for each in limits)


def wrongs(client: Client) -> list[str]:
    """What must never be: tiles given twice, other amounts than are asked for, more than the quota."""
    holders: Counter[tuple[str, int]] = Counter()
    held: Counter[str] = Counter()
    found = []
    for one in live_pods(client):
        tiles = assigned_tiles(one)
        if tiles and len(tiles) != asked_tiles(one):
            found.append(f"{one['metadata']['name']} asks for {asked_tiles(one)} tiles and has {tiles}")
        holders.update(tiles)
        # Kubernetes' quotas do not count pods that should have ended by now; who holds their tiles, we do.
        if "deletionTimestamp" not in one["metadata"]:
            held[one["metadata"]["namespace"]] += len(tiles)
    found += [f"tile {tile} has {count} holders" for tile, count in holders.items() if count > 1]
    found += [f"{namespace} has {count} tiles" for namespace, count in held.items() if count > QUOTA_TILES]
    return found


def wait_for_her(alice: Tenant, number: int) -> float:
    """How long her simple pod waits for its place on a node that has room."""
    body = tile_pod(f"simple-{number}")
    body["spec"]["tolerations"] = [{"key": HERS, "operator": "Exists"}]
    body["spec"]["nodeSelector"] = {HERS: "y"}
    began_s = time.monotonic()
    alice.make("Pod", body)

    def released() -> bool:
        return not alice.see("Pod", f"simple-{number}")["spec"].get("schedulingGates")

    wait_until(
        f"simple-{number} is released",
        released,
        timeout_s=WAITS_S,
        evidence=lambda: str(alice.events(f"simple-{number}")),
    )
    waited_s = time.monotonic() - began_s
    alice.client.send("DELETE", alice.path("Pod", f"simple-{number}"), {"gracePeriodSeconds": 0})
    return waited_s


@pytest.mark.usefixtures("her_node")
def test_nobody_is_harmed_by_what_tenants_do(  # noqa: PLR0917  what takes part
    control_plane: ControlPlane,
    intruders: Sequence[Intruder],
    alice: Tenant,
    scheduler: RunningProcess,
    agent: RunningProcess,
    say: Say,
) -> None:
    random = Random(SEED)
    weights, deeds = zip(*DEEDS, strict=True)
    waits_s = []
    for number in range(ACTIONS):
        random.choices(deeds, weights)[0](random.choice(intruders))
        if number % LOOK_EVERY == 0:
            assert wrongs(control_plane.client) == [], f"after {number} actions"
            waits_s.append(wait_for_her(alice, number))
    for process in (scheduler, agent):
        say(f"\n{process.name}: at most {process.most_mib():.0f} MiB of {process.memory_limit}")
        assert process.is_running
        assert process.faults() == []
    assert wrongs(control_plane.client) == []
    outcomes = sum((who.outcomes for who in intruders), Counter[str]())
    say(f"{ACTIONS} actions, seed {SEED}: {dict(outcomes)}; she waited {max(waits_s):.1f} s at most")
    assert outcomes["done"] > ACTIONS / 4
