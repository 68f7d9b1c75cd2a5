"""Whether a cluster knows a kind: nobody may have installed it, or in another version."""

from collections.abc import Callable, Mapping
from typing import Protocol

from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import ForbiddenError, KubeError, NotFoundError
from accelet.kube.objects import Page
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.waiting import until_it_works

_log = Log(__name__)


class ListApi(Protocol):
    """What is asked; `accelet.kube.client.Client` can be."""

    async def list_page(
        self, resource: ApiResource, namespace: str | None = None, query: Mapping[str, str] | None = None
    ) -> Page: ...


async def is_served(
    api: ListApi,
    resource: ApiResource,
    failed: Callable[[KubeError], None],
    *,
    unseen: str = "objects of this kind are not seen",
    clock: Clock = SYSTEM_CLOCK,
) -> bool:
    """Whether objects of this kind can be listed by us; asks until there is an answer.

    `failed` is told of each time there was none, which is logged once. A kind that we may not list is
    logged as `unseen`, and counts as not served.
    """

    async def ask() -> bool:
        try:
            await api.list_page(resource, None, {"limit": "1"})
        except NotFoundError:
            return False
        except ForbiddenError as error:
            _log.warning(unseen, kind=resource.kind, error=str(error))
            return False
        return True

    failing = Failing(
        _log.bind(kind=resource.kind),
        "cannot tell whether the cluster has this kind; asking again",
        "can tell whether the cluster has this kind",
    )

    def note(error: KubeError, _: float) -> None:
        failing.failed(error)
        failed(error)

    backoff = Backoff(first_s=0.1, most_s=5.0)
    answer = await until_it_works(ask, KubeError, note, backoff=backoff, clock=clock)
    failing.worked()
    return answer
