"""How long the two requests of which a match is made take by themselves, a few times a second, in a storm."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from accelet.kube.apiresources import PODS
from accelet.kube.client import Client
from accelet.kube.errors import ApiError
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from tests.e2e.assigning_agent import project_environment
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess

HERTZ = 5.0
ANSWER_S = 5.0
GET, READ = "get", "read"


@dataclass(frozen=True, slots=True)
class BareRequests:
    """Milliseconds that Gets took, at the kubelet's podresources service, and reads of one pod, at the API
    server.
    """

    gets_ms: Sequence[float]
    reads_ms: Sequence[float]

    def __str__(self) -> str:
        return f"a Get alone {_quantiles(self.gets_ms)}, a read alone {_quantiles(self.reads_ms)}"


class Asking:
    """A process of the node that asks until the end of `asking`."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process

    def answers(self) -> BareRequests:
        """All so far; the last line may be half written."""
        words = [line.split() for line in self._process.log_text().split("\n")[:-1]]
        return BareRequests(*([float(ms) for kind, ms in words if kind == one] for one in (GET, READ)))


@contextmanager
def asking(node: Node, kubeconfig: Path, storm: str) -> Iterator[Asking]:
    words = [sys.executable, "-m", "tests.e2e.bare_requests", str(kubeconfig)]
    process = node.process(f"bare requests {storm}", words, env=project_environment())
    process.start()
    try:
        yield Asking(process)
    finally:
        process.kill()


def _quantiles(found: Sequence[float]) -> str:
    if len(found) < 2:
        return f"{len(found)} answers"
    hundredths = statistics.quantiles(found, n=100, method="inclusive")
    return f"p50 {hundredths[49]:.1f} ms, p99 {hundredths[98]:.1f} ms"


async def main(kubeconfig: Path) -> None:
    loop = asyncio.get_running_loop()
    client = await Client.connect(kubeconfig)

    async def read() -> None:
        try:
            await client.get(PODS, "default", "nobody")
        except ApiError:
            return  # there is none: an answer as good as any

    async with PodResources(KubeletPaths().pod_resources_socket) as pod_resources:

        async def get() -> None:
            try:
                await pod_resources.get("default", "nobody", timeout_s=ANSWER_S)
            except PodResourcesError:
                return  # a kubelet that is started anew; the time that it was waited for counts

        due = loop.time()
        while True:
            await _time(GET, get)
            await _time(READ, read)
            due = max(due + 1 / HERTZ, loop.time())
            await asyncio.sleep(due - loop.time())


async def _time(kind: str, ask: Callable[[], Awaitable[object]]) -> None:
    started = time.perf_counter()
    await ask()
    sys.stdout.write(f"{kind} {1000 * (time.perf_counter() - started):.2f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
