"""Lists what a cluster has, of each kind once; what cannot be listed is noted, and no error."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from accelet.kube.apiresources import ApiResource, ObjectApi
from accelet.kube.errors import ApiError, GoneError, MalformedObjectError, NotFoundError, is_refusal
from accelet.kube.objects import Page, RawObject

PAGE = 500

_T = TypeVar("_T")


class ClusterApi(ObjectApi, Protocol):
    """What is asked; `accelet.kube.client.Client` can be."""

    async def get_version(self) -> bytes: ...

    def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
        page_size: int | None = 250,
    ) -> AsyncIterator[Page]: ...


@dataclass(slots=True)
class KindLister:
    """Lists by one API; `unseen` collects the kinds that could not be listed, by plural, and why not."""

    api: ClusterApi
    unseen: dict[str, str] = field(default_factory=dict)

    async def all(
        self,
        resource: ApiResource,
        parse: Callable[[RawObject], _T],
        *,
        keep: Callable[[_T], bool] = lambda _: True,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[_T, ...]:
        """What `keep` keeps; objects that are not what the API promises are left out, as nobody's fault."""

        async def read(size: int | None) -> tuple[_T, ...]:
            pages = self.api.list_pages(resource, namespace, query, size)
            return tuple([one async for page in pages for one in _parse(page, parse) if keep(one)])

        try:
            try:
                return await read(PAGE)
            except GoneError:  # it took longer than the API server keeps a list's version
                return await read(None)
        except NotFoundError:
            return ()
        except ApiError as error:
            if not is_refusal(error):
                raise
            self.unseen[resource.plural] = str(error)
            return ()


def _parse(page: Page, parse: Callable[[RawObject], _T]) -> Iterator[_T]:
    for raw in page.items:
        try:
            yield parse(raw)
        except MalformedObjectError:
            continue  # one bad object harms no other
