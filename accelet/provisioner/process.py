"""The provisioner's process: it watches always and provisions while it leads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from accelet.control.lease import Terms
from accelet.control.process import ControllerOptions, Surface, refreshed, run_controller
from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import WireObject, read_object
from accelet.provisioner.bookings.keeper import BookingKeeper
from accelet.provisioner.controller import Controller
from accelet.provisioner.events import SliceEvents
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.providers.protocol import Provider
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import Key, OwnerKey, ProvisionerState
from accelet.provisioner.watching import Watching
from accelet.provisioner.writer import SliceWriter
from accelet.runtime.clock import SYSTEM_CLOCK
from accelet.runtime.probes import Check, make_registry

NAMESPACES: Final = ApiResource("Namespace", "namespaces")

_TERMS: Final = Terms(duration_s=8, renew_within_s=6.0, retry_s=1.0)
"""Everything is written down, so that a change of leader costs nothing but this wait.

In six seconds a renewal is tried often enough to outlive an API server that fails a tenth of its answers.
"""

_MARK_LENGTH: Final = 12

MakeProvider = Callable[[Surface, str], Provider]
"""Makes the provider, told the mark of this cluster; `pool_label` is asked before."""


@dataclass(frozen=True, slots=True)
class ProvisionerOptions:
    """`kubeconfig` None stands for the pod's own service account, `http` None for no HTTP port."""

    kubeconfig: Path | None = None
    namespace: str = "kube-system"
    http: tuple[str, int] | None = None
    terms: Terms = _TERMS


class Provisioner:
    """One replica."""

    def __init__(
        self,
        options: ProvisionerOptions,
        settings: ProvisionerSettings,
        make_provider: MakeProvider,
        pool_label: str,
    ) -> None:
        self._options, self._settings = options, settings
        self._make_provider, self._pool_label = make_provider, pool_label

    async def run(self) -> None:
        """Runs until it is cancelled; raises what `run_controller` raises."""
        options, registry = self._options, make_registry()
        metrics = ProvisionerMetrics(registry)
        process = ControllerOptions(
            "provisioner", options.kubeconfig, options.namespace, options.http, terms=options.terms
        )
        await run_controller(process, registry, lambda surface: self._work(surface, metrics))

    def _work(self, surface: Surface, metrics: ProvisionerMetrics) -> "ProvisionerWork":
        return ProvisionerWork(surface, self._settings, metrics, self._make_provider, self._pool_label)


class ProvisionerWork:
    """The provisioner's part of its process."""

    def __init__(
        self,
        surface: Surface,
        settings: ProvisionerSettings,
        metrics: ProvisionerMetrics,
        make_provider: MakeProvider,
        pool_label: str,
    ) -> None:
        self._surface, self._settings, self._metrics = surface, settings, metrics
        self._make_provider = make_provider
        self._state = ProvisionerState(settings, pool_label)
        self._watching = Watching(
            surface.client,
            self._state,
            metrics,
            see_request=self._see_request,
            see_owner=self._see_owner,
            see_pool=self._see_pool,
            see_booking=self._see_booking,
        )
        self._controller: Controller | None = None

    def readiness(self) -> Sequence[Check]:
        silence = self._watching.silence_at(SYSTEM_CLOCK.now_s())
        said = silence or "requests, nodes and pods have been seen, and are heard of"
        return [Check("watches", self._watching.is_synced and not silence, said)]

    async def watch(self) -> None:
        await self._watching.run()

    async def may_stand(self) -> None:
        """At once."""

    async def lead(self) -> None:
        """Provisions while this replica leads, from a state that has the former leader's last act."""
        await self._watching.synced()
        await refreshed(self._watching.refresh)
        cluster = await self._read_mark()
        writer = SliceWriter(self._surface.client, self._surface.writer, self._state)
        self._controller = Controller(
            self._state,
            writer,
            self._make_provider(self._surface, cluster),
            self._settings,
            self._metrics,
            events=SliceEvents(self._surface.events.record),
            bookings=BookingKeeper(self._surface.writer, writer, self._state),
            cluster=cluster,
        )
        self._metrics.is_leading.set(1)
        try:
            await self._controller.run()
        finally:
            self._controller = None
            self._metrics.is_leading.set(0)

    async def _read_mark(self) -> str:
        """What pools of this cluster are marked with: the begin of the UID of kube-system."""
        marks: list[str] = []

        async def read() -> None:
            raw = await self._surface.client.get(NAMESPACES, None, "kube-system")
            marks.append(read_object(msgspec.Raw(raw), "Namespace", WireObject).metadata.uid or "")

        await refreshed(read)
        return marks[-1][:_MARK_LENGTH].rstrip("-")

    def _see_request(self, key: Key) -> None:
        if self._controller is not None:
            self._controller.see_request(key)

    def _see_owner(self, key: OwnerKey) -> None:
        if self._controller is not None:
            self._controller.see_owner(key)

    def _see_pool(self, pool: str) -> None:
        if self._controller is not None:
            self._controller.see_pool(pool)

    def _see_booking(self, key: Key) -> None:
        if self._controller is not None:
            self._controller.see_booking(key)
