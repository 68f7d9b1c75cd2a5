"""Which objects are wanted, and what gives lists and watches of them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import Page

MOST_LARGE = 50
"""Objects in a page: who may make them may fill a megabyte and a half each, and a process that starts reads
several lists at a time.
"""


class Batches(Protocol):
    """Raw event lines as they come, to the end of the watch."""

    def __aiter__(self) -> AsyncIterator[list[bytes]]: ...


class Source(Protocol):
    """Where lists and watches come from; `accelet.kube.client.Client` is one."""

    def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None,
        query: Mapping[str, str] | None,
        page_size: int | None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]: ...

    def watch(
        self, resource: ApiResource, namespace: str | None, query: Mapping[str, str] | None
    ) -> AbstractAsyncContextManager[Batches]: ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects: of a resource, in a namespace or in all, by selectors as the API takes them.

    `starts_from_cache` lets the first list come from the API server's memory, maybe a moment old: right
    for what runs on every node. Later lists are up to date. `compares_first` has a refresh read only what has
    changed, as long as that is little: right for large objects.
    """

    resource: ApiResource
    namespace: str | None = None
    field_selector: str = ""
    label_selector: str = ""
    page_size: int = MOST_LARGE
    starts_from_cache: bool = False
    compares_first: bool = False

    @property
    def query(self) -> dict[str, str]:
        chosen = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {key: value for key, value in chosen.items() if value}
