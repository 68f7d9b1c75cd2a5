"""A way to the API server on which some requests fail, before or after they had their effect.

`python -m tests.e2e.slices.faulty_proxy SERVER CA SEED RATE` serves until its input ends: a process of its
own, so that what a test looks at meanwhile delays no request. It writes its address, and at the end how many
requests failed of how many. A number that it reads lets so many writes through and then none, of which it
writes `cut`, until it reads `open`.
"""

import asyncio
import random
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_REFUSAL = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n%s"
)
_STATUS = b'{"kind":"Status","status":"Failure","reason":"InternalError","message":"a fault","code":500}'


_CUT, _OPEN = "cut", "open"


@dataclass
class Faults:
    """Where the proxy serves, and, once it has ended, how many requests failed of how many."""

    url: str
    process: asyncio.subprocess.Process
    failed: int = 0
    requests: int = 0

    async def cut(self, writes: int, within_s: float) -> None:
        """Returns once so many writes were let through; from then on there are no more, until `open`.

        Leases and Events do not count, and go on.

        Raises:
            AssertionError: there were fewer in that time.
        """
        self._tell(str(writes))
        try:
            async with asyncio.timeout(within_s):
                assert await self._read() == _CUT
        except TimeoutError:
            raise AssertionError(f"nobody wrote {writes} times within {within_s:.0f} s") from None

    def open(self) -> None:
        """Lets writes through again. Those that were stopped are never sent."""
        self._tell(_OPEN)

    async def end(self) -> None:
        """Ends the proxy, and takes its figures over."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        while (line := await self._read()) == _CUT:
            pass
        self.failed, self.requests = map(int, line.split())
        await self.process.wait()

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def _read(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def faulty_proxy(server: str, ca: Path, seed: int, rate: float) -> AsyncIterator[Faults]:
    """Runs the proxy."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.e2e.slices.faulty_proxy", server, str(ca), str(seed), str(rate)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    faults = Faults((await process.stdout.readline()).decode().strip(), process)
    try:
        yield faults
    finally:
        await faults.end()


class Gate:
    """Lets all writes through, or so many and then none until it is opened again. `cut` is told of that."""

    def __init__(self, cut: Callable[[], None]) -> None:
        self._cut, self._left = cut, -1
        self._opened = asyncio.Event()

    def close_after(self, writes: int) -> None:
        self._left = writes
        self._opened.clear()

    def open(self) -> None:
        self._left = -1
        self._opened.set()

    async def passes(self) -> bool:
        """Whether a write may go on; it is stopped while the gate is closed, and then never sent."""
        if self._left < 0:
            return True
        if self._left == 0:
            await self._opened.wait()
            return False
        self._left -= 1
        if self._left == 0:
            self._cut()
        return True


class FaultyProxy:
    """Serves plain HTTP on 127.0.0.1, one request a connection, and sends it on to the API server.

    `rate` of the requests fail: a third are answered 500, a third are dropped unsent, and of a third the
    answer is lost.
    """

    def __init__(self, server: str, ca: Path, chance: random.Random, rate: float, gate: Gate) -> None:
        self._gate = gate
        self._server, self._tls = urlsplit(server), ssl.create_default_context(cafile=str(ca))
        self._chance, self._rate = chance, rate
        self._serving: set[asyncio.Task[None]] = set()
        self.requests = self.failed = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The address as a URL, while it serves."""
        server = await asyncio.start_server(self._serve_one, "127.0.0.1", 0, limit=1 << 20)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in list(self._serving):
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(await reader.readuntil(b"\r\n\r\n"), reader, writer)
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [
            line
            for line in head.split(b"\r\n")[:-2]
            if not line.lower().startswith((b"connection:", b"host:"))
        ]
        length = next(
            (int(one.split(b":")[1]) for one in lines if one.lower().startswith(b"content-length:")), 0
        )
        body = await reader.readexactly(length)
        if _counts(lines[0]) and not await self._gate.passes():
            return
        fault = self._fault()
        if fault == "refused":
            writer.write(_REFUSAL % (len(_STATUS), _STATUS))
            await writer.drain()
        if fault in ("refused", "unsent"):
            return
        upstream, onward = await asyncio.open_connection(
            self._server.hostname, self._server.port, ssl=self._tls, limit=1 << 20
        )
        try:
            host = f"Host: {self._server.netloc}".encode()
            onward.write(b"\r\n".join((*lines, host, b"Connection: close", b"", b"")) + body)
            await onward.drain()
            relaying = asyncio.create_task(_relay(upstream, None if fault else writer))
            hanging_up = asyncio.create_task(reader.read(1))
            both = (relaying, hanging_up)
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
            await writer.drain()
        finally:
            onward.transport.abort()

    def _fault(self) -> str:
        self.requests += 1
        if self._chance.random() >= self._rate:
            return ""
        self.failed += 1
        return self._chance.choice(("refused", "unsent", "unanswered"))


def _counts(line: bytes) -> bool:
    """Whether a request is a write of what the leader alone writes, as its first line says."""
    method, path, *_ = line.split(b" ")
    return method != b"GET" and b"/leases" not in path and b"/events" not in path


async def _relay(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> None:
    """Hands an answer on; without a writer its first part is awaited, and nobody gets it."""
    while part := await upstream.read(1 << 16):
        if writer is None:
            return
        writer.write(part)
        await writer.drain()


async def main(server: str, ca: str, seed: str, rate: str) -> None:
    gate = Gate(lambda: _write(_CUT))
    proxy = FaultyProxy(server, Path(ca), random.Random(int(seed)), float(rate), gate)
    async with proxy.serve() as url:
        _write(url)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == _OPEN:
                gate.open()
            else:
                gate.close_after(int(line))
    _write(f"{proxy.failed} {proxy.requests}")


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
