"""Everything that `accelet ui` runs: watches, pictures, and the server of the page."""

import asyncio
import socket
from collections.abc import Callable

from accelet.kube.apiresources import ClusterName
from accelet.overview.seen import SeenCluster
from accelet.runtime.tasks import task_group
from accelet.scheduler.settings import SchedulerSettings
from accelet.ui.access import Sessions
from accelet.ui.app import make_app
from accelet.ui.painting import Painter
from accelet.ui.podevents import PodEvents
from accelet.ui.server import serve
from accelet.ui.subscribers import Subscribers
from accelet.ui.watching import PageApi, PageWatching


async def serve_page(
    api: PageApi,
    name: ClusterName,
    settings: SchedulerSettings,
    listener: socket.socket,
    offer: Callable[[str], None],
) -> None:
    """Serves the page of the cluster `name` until it is cancelled.

    `offer` is told each link that opens one browser.
    """
    port = listener.getsockname()[1]
    seen, sessions, changed = SeenCluster(settings, name), Sessions(), asyncio.Event()
    watching = PageWatching(api, seen, changed=changed.set)
    subscribers = Subscribers(lambda: watching.hearing)

    def offer_link() -> None:
        offer(f"http://127.0.0.1:{port}{sessions.link}")

    painter = Painter(seen, watching, subscribers, changed)
    async with task_group() as group:
        group.create_task(watching.run())
        group.create_task(painter.run())
        app = make_app(sessions, subscribers, port, offer_link, PodEvents(api).tell)
        group.create_task(serve(app, listener, subscribers.end))
        offer_link()
