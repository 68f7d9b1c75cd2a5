"""A tenant fills the agent's memory: by its HTTP port, and by what she writes in pods of its node."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count

import pytest

from tests.e2e.cluster.waiting import wait_until
from tests.e2e.tenants.installation import CARD, Tenant, pod
from tests.e2e.tenants.pods.processes import REAL, RunningProcess, real_pod

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]

AGENT, SCHEDULER = ("127.0.0.1", 9400), ("127.0.0.1", 9401)
LONG = "x" * 100_000


@pytest.fixture
def unharmed(agent: RunningProcess, scheduler: RunningProcess, say: Say) -> Iterator[None]:
    """Neither has ended by itself."""
    yield
    for process in (agent, scheduler):
        used = f"{process.used_mib():.0f} MiB, at most {process.most_mib():.0f} of {process.memory_limit}"
        say(f"\n{process.name}: {used}")
        assert process.is_running


def answers(address: tuple[str, int]) -> bool:
    """Whether it answers a probe."""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return b"200" in connection.recv(100)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("address", [AGENT, SCHEDULER], ids=["agent", "scheduler"])
def test_headers_without_end_are_not_kept(address: tuple[str, int]) -> None:
    header = b"X-A: " + b"x" * 65_000 + b"\r\n"
    with ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(socket.create_connection(address, timeout=10))
            with suppress(ConnectionError):  # it is cut off somewhere in between
                connection.sendall(b"GET /metrics HTTP/1.1\r\n" + header * 98 + b"\r\n")
                assert b" 200 " not in connection.recv(100)
    assert answers(address)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("address", [AGENT, SCHEDULER], ids=["agent", "scheduler"])
def test_slow_connections_are_closed_for_others(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        for _ in range(600):
            connection = stack.enter_context(socket.create_connection(address, timeout=10))
            connection.sendall(b"GET /metr")
        wait_until("it answers beside them", lambda: answers(address), timeout_s=30)


RUNS_WITHIN_S = 240.0
"""One of the pods that come while the large ones keep the watch behind; how many are turned away until then
depends on the machine: sixteen were once, on two cores that had seven times their work.
"""


@pytest.mark.timeout(900)
def test_pods_of_a_megabyte_do_not_end_an_agent_that_starts(
    mallory: Tenant, alice: Tenant, agent: RunningProcess, unharmed: None, say: Say
) -> None:
    """Half of them have ended: they are in its first list all the same. Nor do they when all go at once."""
    for number in range(50):
        body = pod(f"large-{number}")
        (container,) = body["spec"]["containers"]
        container["imagePullPolicy"] = "Never"
        container["env"] = [{"name": f"V{index}", "value": LONG} for index in range(13)]
        # Of two one is for another node, and has ended as soon as the kubelet sees it.
        body["spec"] |= {"nodeName": REAL, "nodeSelector": {"nowhere": "x"} if number % 2 else {}}
        mallory.make("Pod", body)
    agent.restart()
    beside = turned_away(alice, "beside")
    mallory.client.send("DELETE", mallory.path("Pod"), {"gracePeriodSeconds": 0})
    say(f"\nturned away: {beside} pods beside the large ones, {turned_away(alice, 'after')} as these went")


def turned_away(tenant: Tenant, name: str) -> int:
    """How many pods are refused until one runs."""
    ends_s = time.monotonic() + RUNS_WITHIN_S
    for number in count():
        tenant.make("Pod", real_pod(f"{name}-{number}", {CARD: "1"}))
        if fate(tenant, f"{name}-{number}") == "Running":
            return number
        assert time.monotonic() < ends_s, tenant.events(f"{name}-{number}")
    raise AssertionError


def fate(tenant: Tenant, name: str) -> str:
    """What became of a pod, once it is started or refused."""

    def phase() -> str | None:
        found = tenant.see("Pod", name)["status"].get("phase")
        return None if found == "Pending" else str(found)

    return wait_until(f"{name} is started or refused", phase, timeout_s=60)
