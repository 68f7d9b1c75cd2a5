"""One resource in this process: its scans and its registration, side by side."""

import asyncio
from pathlib import Path

from accelet.accelerators.looking import Share
from accelet.kubelet.paths import KubeletPaths
from deviceplugin.claims import Claims
from deviceplugin.config import ResourceConfig
from deviceplugin.discovery import Discovery
from deviceplugin.evidence import KubeletRecords
from deviceplugin.metrics import Metrics
from deviceplugin.plugin import Plugin, RegistrationState
from resourcemanager.manager import ResourceManager


class ServedResource:
    """Serves one configured resource while `run` runs.

    A resource that has never had a device is not registered: a node without the hardware shows no trace
    of it. Once registered it stays so, down to an empty list.
    """

    def __init__(
        self,
        config: ResourceConfig,
        *,
        root: Path,
        paths: KubeletPaths,
        records: KubeletRecords,
        claims: Claims,
        share: Share,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.manager = ResourceManager(config.rules, config.backend(share))
        own_metrics = metrics.of(config.name)
        self._own_metrics = own_metrics
        self._claims = claims
        self._has_devices = asyncio.Event()
        self.plugin = Plugin(self.manager, root, paths, own_metrics)
        self.discovery = Discovery(
            self.manager,
            root,
            held=lambda: records.held(config.name),
            claims=claims,
            changed=self._changed,
            metrics=own_metrics,
        )

    @property
    def state(self) -> RegistrationState | None:
        """Where the registration stands; None while there is nothing to register."""
        return self.plugin.state if self._has_devices.is_set() else None

    async def run(self) -> None:
        """Scans and stays registered, for ever."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.discovery.run(), name=f"discovery {self.config.name}")
                tasks.create_task(self._stay_registered(), name=f"plugin {self.config.name}")
        finally:
            self._claims.release(self.config.name)

    def forget_metrics(self) -> None:
        self._own_metrics.forget()

    async def _stay_registered(self) -> None:
        await self._has_devices.wait()
        await self.plugin.run()

    def _changed(self, is_urgent: bool) -> None:
        if self.manager.listing.entries:
            self._has_devices.set()
        self.plugin.announce(is_urgent=is_urgent)
