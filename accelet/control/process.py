"""A controller's process: it watches always and acts while it leads."""

import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry

from accelet.control.lease import Election, Terms
from accelet.control.writer import FencedWriter
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.recording.eventlog import EventLimits
from accelet.kube.recording.events import EventRecorder
from accelet.runtime.backoff import Backoff
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check, Page, ProbeServer
from accelet.runtime.tasks import task_group
from accelet.runtime.waiting import until_it_works

_log = Log(__name__)


_EVENT_LIMITS = EventLimits(burst=200.0, per_s=20.0, remembered=10_000)
"""A controller speaks of thousands of objects at once, of each pod and its owner; some 10 MB at most."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How one replica of the controller `name` runs; all replicas share the Lease `accelet-NAME`.

    `kubeconfig` None stands for the pod's own service account, `http` None for no HTTP port, which tells its
    own pod alone what `pages` have. At most `threads` requests are under way at a time, besides watches.
    """

    name: str
    kubeconfig: Path | None = None
    namespace: str = "kube-system"
    http: tuple[str, int] | None = None
    pages: Mapping[str, Page] = field(default_factory=dict)
    threads: int = 8
    terms: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True)
class Surface:
    """The API server as a controller has it: `client` to look, `writer` to act, `events` to say so."""

    client: Client
    writer: FencedWriter
    events: EventRecorder


class ControllerWork(Protocol):
    """What a controller itself is."""

    def readiness(self) -> Sequence[Check]:
        """What /readyz tells; asked on the event loop, so it must not wait."""
        ...

    async def watch(self) -> None:
        """Keeps up with the cluster until it is cancelled, leading or not."""
        ...

    async def may_stand(self) -> None:
        """Waits until this replica could act if it were elected: before, the Lease is left to another.

        It is asked once. `readiness` says meanwhile what is waited for.
        """
        ...

    async def lead(self) -> None:
        """Acts until it is cancelled. Begins with `refreshed`: the former leader's last act must be known."""
        ...


async def run_controller(
    options: ControllerOptions, registry: CollectorRegistry, make: Callable[[Surface], ControllerWork]
) -> None:
    """Runs what `make` makes until it is cancelled; the Lease is then given back.

    Raises:
        KubeError: there is no usable way to the API server.
        AddressError: the HTTP port cannot be opened.
        Exception: what the first task of the controller failed with.
    """
    client = await Client.connect(options.kubeconfig, threads=options.threads)
    # A renewal of the lease must not wait behind other requests.
    electoral = await Client.connect(options.kubeconfig)
    me = f"{os.environ.get('HOSTNAME', options.name)}-{secrets.token_hex(4)}"
    lease = f"accelet-{options.name}"
    election = Election(electoral, options.namespace, lease, me, terms=options.terms)
    events = EventRecorder(client, f"accelet.dev/{options.name}", me, limits=_EVENT_LIMITS)
    work = make(Surface(client, FencedWriter(client, lambda: election.is_leader), events))
    server = None
    try:
        if options.http is not None:
            server = ProbeServer(options.http, registry, work.readiness, pages=options.pages)
        async with task_group() as tasks:
            tasks.create_task(work.watch(), name="watch")
            tasks.create_task(events.run(), name="events")
            tasks.create_task(_lead(work, election), name="lead")
    finally:
        client.close()
        electoral.close()
        if server is not None:
            server.close()


async def _lead(work: ControllerWork, election: Election) -> None:
    await work.may_stand()
    await election.run(work.lead)


async def refreshed(refresh: Callable[[], Awaitable[None]]) -> None:
    """Refreshes until it works: to begin with a stale state would be to act against the last leader."""

    def say(error: KubeError, wait_s: float) -> None:
        _log.warning("cannot read the cluster", error=str(error), next_s=wait_s)

    await until_it_works(refresh, KubeError, say, backoff=Backoff(first_s=0.1, most_s=5.0))
