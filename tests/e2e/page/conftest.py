"""The page of a small cluster in Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from accelet.fakeapi import FakeApi
from tests.browser import Tab, open_tab
from tests.integration.ui.cluster import fill_small
from tests.integration.ui.conftest import PageProcess, page_of

WHOLE = "document.documentElement.dataset.whole === 'true'"
"""Whether all of the first picture is drawn."""


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        fill_small(api)
        yield api


@pytest.fixture
def page(api: FakeApi, tmp_path: Path) -> Iterator[PageProcess]:
    with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
        yield page


@pytest.fixture
def tab(page: PageProcess) -> Iterator[Tab]:
    with open_tab() as tab:
        tab.look(width=1280, height=900, dark=False)
        tab.open(page.next_link())
        tab.until(f"{WHOLE} && document.querySelectorAll('.node').length === 4")
        yield tab
