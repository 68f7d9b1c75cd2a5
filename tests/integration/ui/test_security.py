"""What strangers on the same machine, and pages of others, get of the page: nothing."""

import copy
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from accelet.fakeapi import FakeApi
from accelet.ui.app import page_files
from accelet.ui.server import MOST_CONNECTIONS
from accelet.ui.subscribers import MOST_SUBSCRIBERS
from tests.integration.ui.browsing import Browsing, ask
from tests.integration.ui.conftest import PageProcess, page_of

Start = Callable[..., AbstractContextManager[PageProcess]]


@pytest.fixture(scope="module")
def browsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    """One page for all who leave it as they found it."""
    with FakeApi() as api:
        kubeconfig = api.write_kubeconfig(tmp_path_factory.mktemp("page") / "kubeconfig")
        with page_of(kubeconfig) as page:
            yield Browsing(page.next_link())


@pytest.fixture
def own(start: Start) -> Iterator[Browsing]:
    with start() as page:
        yield Browsing(page.next_link())


def test_nothing_is_told_without_the_cookie(browsing: Browsing) -> None:
    for path in (
        "/",
        browsing.folder,
        f"{browsing.folder}events",
        f"{browsing.folder}page.js",
        "/open",
        "/open?link=x",
    ):
        answer = ask(browsing.host, path)
        assert answer.status == 403, path
        assert b"<" not in answer.body
    assert ask(browsing.host, browsing.folder, {"Cookie": "accelet-ui=guessed"}).status == 403
    assert browsing.get().status == 200


def test_other_names_origins_sites_and_methods_are_refused(browsing: Browsing) -> None:
    assert browsing.get(Host="rebound.example").status == 421
    assert browsing.get(Origin="http://other.example").status == 403
    assert browsing.get(**{"Sec-Fetch-Site": "cross-site"}).status == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        refused = ask(browsing.host, browsing.folder, {"Cookie": browsing.cookie}, method)
        assert refused.status == 405, method


def test_every_answer_has_a_strict_policy(browsing: Browsing) -> None:
    for answer in (browsing.get(), browsing.get("page.js"), browsing.get("nothing"), ask(browsing.host, "/")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


def test_cookie_is_strict_and_out_of_reach_of_scripts(browsing: Browsing) -> None:
    assert browsing.set_cookie.endswith(f"; Path={browsing.folder}; HttpOnly; SameSite=Strict")


def test_only_files_of_the_page_are_served(browsing: Browsing) -> None:
    for name in page_files():
        assert browsing.get(name).status == 200
    for name in ("../__init__.py", "..%2fapp.py", "%2e%2e/app.py", "page.py", "x/y", "."):
        assert browsing.get(name).status in {403, 404}, name


def test_page_has_no_script_and_no_style_but_its_files_and_parses_no_markup() -> None:
    page = page_files()["page.html"][0].decode()
    assert "style=" not in page
    assert " on" not in page.replace(" only", "").replace(" on a", "")[: page.index("<body>")]
    assert page.count("<script") == 1
    for name, (content, _) in page_files().items():
        if name.endswith(".js"):
            for way in (
                b"innerHTML",
                b"outerHTML",
                b"insertAdjacentHTML",
                b"document.write",
                b"eval(",
                b"DOMParser",
            ):
                assert way not in content, name
            assert b"http://" not in content
            assert b"https://" not in content


def test_those_who_hold_connections_keep_nobody_out(own: Browsing) -> None:
    host, _, port = own.host.partition(":")
    with ExitStack() as held:
        for _ in range(2 * MOST_CONNECTIONS):
            silent = held.enter_context(socket.create_connection((host, int(port)), timeout=60))
            silent.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert own.get().status == 200
        first = held.enter_context(socket.create_connection((host, int(port)), timeout=60))
        assert first.recv(1) == b"", "what asks nothing in time is closed"


def test_more_pages_than_some_are_refused(own: Browsing) -> None:
    with ExitStack() as open_pages:
        for _ in range(MOST_SUBSCRIBERS):
            page = open_pages.enter_context(copy.copy(own))
            page.follow()
            page.take()
        assert own.get("events").status == 503
