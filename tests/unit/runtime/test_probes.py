"""The HTTP port."""

import asyncio
import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, Gauge

from accelet.runtime.probes import AddressError, Check, ProbeServer, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9400", ("", 9400)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_address_is_parsed(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "9400", "::1:9400", ":x", ":65536", "host:", ":-1", ":٣"])
def test_text_that_is_no_address_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(AddressError, match="write HOST:PORT"):
        parse_address(text)


@contextmanager
def serving(*checks: Check, host: str = "127.0.0.1", loop_answers_s: float = 10.0) -> Iterator[ProbeServer]:
    registry = CollectorRegistry()
    Gauge("accelet_test", "A test.", registry=registry).set(7)
    server = ProbeServer((host, 0), registry, lambda: checks, loop_answers_s=loop_answers_s)
    try:
        yield server
    finally:
        server.close()


async def get(
    server: ProbeServer, path: str, host: str = "127.0.0.1", method: str = "GET"
) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        connection = http.client.HTTPConnection(host, server.port, timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    return await asyncio.to_thread(ask)


async def test_ready_when_every_check_is() -> None:
    good, bad = Check("gpu", is_ok=True, detail="registered"), Check("xe", is_ok=False, detail="no kubelet")
    with serving(good) as server:
        assert await get(server, "/readyz") == (200, "ok\n")
        assert await get(server, "/readyz?verbose") == (200, "[+] gpu: registered\nok\n")
    with serving(good, bad) as server:
        assert await get(server, "/readyz") == (503, "[+] gpu: registered\n[-] xe: no kubelet\nnot ready\n")
        assert await get(server, "/healthz") == (200, "ok\n")


async def test_metrics_and_nothing_else_are_served() -> None:
    with serving() as server:
        assert "accelet_test 7.0" in (await get(server, "/metrics"))[1]
        assert (await get(server, "/"))[0] == 404
        assert (await get(server, "/healthz", method="POST"))[0] == 405


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_all_addresses_are_those_of_both_families() -> None:
    with serving(host="") as server:
        assert (await get(server, "/healthz", host="127.0.0.1"))[0] == 200
        assert (await get(server, "/healthz", host="::1"))[0] == 200


async def test_stuck_loop_is_unhealthy() -> None:
    with serving(loop_answers_s=0.05) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 503  # this very call keeps the loop


async def test_address_in_use_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AddressError, match="cannot listen on"):
            ProbeServer(taken.getsockname(), CollectorRegistry(), lambda: ())
