"""The HTTP port."""

import asyncio
import gzip
import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from accelet.runtime.probes import DEFAULT_BOUNDS, AddressError, Check, Page, ProbeServer, parse_address
from accelet.runtime.webserver import Bounds, is_loopback


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
def serving(
    *checks: Check,
    host: str = "127.0.0.1",
    loop_answers_s: float = 10.0,
    bounds: Bounds = DEFAULT_BOUNDS,
    pages: Mapping[str, Page] | None = None,
) -> Iterator[ProbeServer]:
    registry = CollectorRegistry()
    Gauge("accelet_test", "A test.", registry=registry).set(7)
    server = ProbeServer(
        (host, 0), registry, lambda: checks, pages=pages or {}, loop_answers_s=loop_answers_s, bounds=bounds
    )
    try:
        yield server
    finally:
        server.close()


async def get(
    server: ProbeServer, path: str, host: str = "127.0.0.1", method: str = "GET"
) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        with closing(http.client.HTTPConnection(host, server.port, timeout=10)) as connection:
            connection.request(method, path)
            with connection.getresponse() as answer:
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
    with (
        serving(loop_answers_s=0.05) as server,
        closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection,
    ):
        connection.request("GET", "/healthz")
        with connection.getresponse() as answer:
            assert answer.status == 503  # this very call keeps the loop


async def test_address_in_use_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AddressError, match="cannot listen on"):
            ProbeServer(taken.getsockname(), CollectorRegistry(), lambda: ())


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def test_headers_beyond_all_measure_are_refused_and_fill_no_memory() -> None:
    heads = b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"x" * 65_000) for i in range(98))
    with serving() as server:
        assert (await get(server, "/healthz"))[0] == 200
        before_mib = resident_mib()
        with ExitStack() as stack:
            for _ in range(8):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.settimeout(5)
                with suppress(OSError):  # it is closed on us before we have said all
                    client.sendall(heads)
            assert (await get(server, "/healthz"))[0] == 200
            assert resident_mib() - before_mib < 25, "it was 50 MiB"


def _closed_within_s(clients: Sequence[socket.socket]) -> float:
    """How long it takes until the server has closed all of them."""
    began_s = time.monotonic()
    for client in clients:
        client.settimeout(10)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    return time.monotonic() - began_s


async def test_those_who_only_hold_connections_keep_nobody_out_and_are_closed() -> None:
    bounds = Bounds(connections=16, head_s=1.0)
    threads = threading.active_count()
    with serving(bounds=bounds) as server, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(300)]
        slow[-1].sendall(b"GET /hea")
        assert (await get(server, "/healthz"))[0] == 200
        assert threading.active_count() <= threads + 3
        assert await asyncio.to_thread(_closed_within_s, slow) < 5


async def test_who_opens_ever_more_connections_ends_nobody_elses() -> None:
    """A probe of the kubelet may be answered late: it must not fail because of others."""
    with serving(bounds=Bounds(connections=16, head_s=60)) as server, ExitStack() as stack:
        address = "127.0.0.1", server.port
        probe = stack.enter_context(socket.create_connection(address, timeout=10))
        probe.sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(100):
            stack.enter_context(socket.create_connection(address, 10, source_address=("127.0.0.2", 0)))
        assert (await get(server, "/healthz"))[0] == 200, "all of these have been taken"
        probe.sendall(b"\r\n")
        assert (await asyncio.to_thread(probe.recv, 1000)).startswith(b"HTTP/1.1 200 ")


async def test_a_request_that_comes_drop_by_drop_is_not_waited_for() -> None:
    with (
        serving(bounds=Bounds(head_s=0.3)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.settimeout(10)
        began_s = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began_s < 8:
                client.sendall(b"G")
                client.settimeout(0.1)
                with suppress(TimeoutError):
                    if await asyncio.to_thread(client.recv, 1) == b"":
                        break
        assert time.monotonic() - began_s < 4


@pytest.mark.parametrize(
    "head", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / SMTP\r\n\r\n", b"\xff\x00 \xff\r\n\r\n"]
)
async def test_what_is_no_request_is_answered_so(head: bytes) -> None:
    with serving() as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(10)
        client.sendall(head)
        assert (await asyncio.to_thread(client.recv, 100)).startswith(b"HTTP/1.1 400 ")


async def test_head_has_no_body_and_metrics_come_zipped_to_who_asks() -> None:
    with serving() as server:
        assert await get(server, "/healthz", method="HEAD") == (200, "")

        def ask() -> bytes:
            with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
                connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
                with connection.getresponse() as answer:
                    assert answer.headers["Content-Encoding"] == "gzip"
                    return answer.read()

        assert b"accelet_test 7.0" in gzip.decompress(await asyncio.to_thread(ask))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_pages_are_told_to_who_asks_from_the_same_host(host: str) -> None:
    with serving(host="", pages={"/own": lambda: b"[1]"}) as server:
        assert await get(server, "/own", host=host) == (200, "[1]")
        assert (await get(server, "/other", host=host))[0] == 404


def test_a_request_is_local_by_its_address_alone() -> None:
    local = ("127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1")
    assert all(is_loopback(address) for address in local)
    far = ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "2001:db8::1", "0.0.0.0")
    assert not any(is_loopback(address) for address in far)
