"""The provisioner with a fake GKE."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from accelet.control.process import Surface
from accelet.provisioner.process import Provisioner, ProvisionerOptions
from accelet.provisioner.providers.gke.provider import GkeProvider
from accelet.provisioner.providers.gke.transport import NoTokens, Transport
from accelet.provisioner.providers.protocol import Provider
from accelet.provisioner.settings import GkeSettings, ProvisionerSettings
from tests.fakegke.server import FakeGke
from tests.integration.provisioner.conftest import TIMES
from tests.integration.provisioner.world import World
from tests.integration.terms import STEADY

SETTINGS = ProvisionerSettings(
    version="v1",
    provider="gke",
    zones=("us-east5-a", "us-east5-b"),
    gke=GkeSettings(project="p", location="us-east5", cluster="c"),
    **TIMES,
)


@asynccontextmanager
async def provisioner_on_gke(
    world: World,
    gke: FakeGke,
    folder: Path,
    *,
    adopt: bool = False,
    park_s: float = 0.0,
    repair_s: float = 1200.0,
    evict_s: float | None = None,
    behind: Callable[[Provider], Provider] = lambda provider: provider,
) -> AsyncIterator[None]:
    """`behind` makes what the provisioner asks instead of the provider itself."""
    kubeconfig = world.api.write_kubeconfig(folder / "kubeconfig")
    cluster_settings = msgspec.structs.replace(SETTINGS.gke, adopt=adopt)
    settings = msgspec.structs.replace(SETTINGS, gke=cluster_settings, park_s=park_s)
    settings = msgspec.structs.replace(settings, repair_s=repair_s, evict_s=evict_s)

    def make(surface: Surface, cluster: str) -> Provider:
        transport = Transport(gke.url, NoTokens())
        return behind(GkeProvider(transport, settings, cluster, surface.writer.may_write))

    options = ProvisionerOptions(kubeconfig, terms=STEADY)
    task = asyncio.create_task(Provisioner(options, settings, make, GkeProvider.pool_label).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
