"""Asks the podresources service of the node's kubelet, so many times a second, as monitoring does."""

import asyncio
import sys

from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources


async def main(hertz: float) -> None:
    loop = asyncio.get_running_loop()
    async with PodResources(KubeletPaths().pod_resources_socket) as pod_resources:
        due = loop.time()
        while True:
            try:
                await pod_resources.get("default", "nobody", timeout_s=0.02)
            except PodResourcesError as error:
                sys.stdout.write(f"{error}\n")
            due = max(due + 1 / hertz, loop.time() - 1)
            await asyncio.sleep(due - loop.time())


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
