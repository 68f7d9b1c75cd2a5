"""Events of a pod, asked for by a browser that was let in."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from accelet.fakeapi import Answer, FakeApi, Fault
from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import Page
from accelet.ui.podevents import MOST_ASKED, PodEvents
from tests.integration.ui.browsing import Browsing, ask
from tests.integration.ui.cluster import add_event
from tests.integration.ui.conftest import PageProcess

Start = Callable[..., AbstractContextManager[PageProcess]]


def test_events_of_one_pod_are_told_to_browsers_that_were_let_in(api: FakeApi, start: Start) -> None:
    add_event(api, "ml", "train-0", "BackOff", "restarting", kind="Warning")
    add_event(api, "other", "train-0", "Started", "in another namespace")
    with start() as page, Browsing(page.next_link()) as browsing:
        answer = browsing.get("pods/ml/train-0/events")
        assert answer.headers["content-type"] == "application/json"
        (told,) = json.loads(answer.body)["events"]
        assert (told["reason"], told["message"], told["is_warning"]) == ("BackOff", "restarting", True)
        assert json.loads(browsing.get("pods/ml/nobody/events").body) == {}
        assert browsing.get("pods/ml/a,b/events").status == 404
        assert ask(browsing.host, f"{browsing.folder}pods/ml/train-0/events").status == 403
        api.faults.append(Fault(Answer(403, "Forbidden", "you may not"), path="/events", times=1))
        assert "you may not" in json.loads(browsing.get("pods/ml/train-0/events").body)["problem"]


class SilentApi:
    """An API server that takes requests and answers none; `most` is how many it had at one time."""

    def __init__(self) -> None:
        self.asked = self.most = 0

    async def list_page(
        self, resource: ApiResource, namespace: str | None = None, query: Mapping[str, str] | None = None
    ) -> Page:
        self.asked += 1
        self.most = max(self.most, self.asked)
        try:
            await asyncio.Event().wait()
        finally:
            self.asked -= 1
        raise AssertionError(resource, namespace, query)


async def test_a_silent_api_server_is_told_in_time_and_asked_by_few_at_once() -> None:
    api = SilentApi()
    events = PodEvents(api, answer_s=0.05)
    told = await asyncio.gather(*(events.tell(("ml", f"train-{rank}")) for rank in range(4 * MOST_ASKED)))
    assert {one.problem for one in told} == {"the API server did not answer within 0.05 s"}
    assert (api.most, api.asked) == (MOST_ASKED, 0)
