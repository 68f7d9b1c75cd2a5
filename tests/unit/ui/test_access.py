"""Who is let in, and who is not: links, cookies, names and origins."""

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.ui.access import (
    COOKIE,
    MOST_SESSIONS,
    Denied,
    Opened,
    PageRequest,
    Sessions,
    folder_of,
    judge_request,
)

PORT = 8123
OURS = {"host": f"127.0.0.1:{PORT}"}


def let_in(sessions: Sessions) -> Opened:
    opened = sessions.open(sessions.link.partition("=")[2])
    assert isinstance(opened, Opened)
    return opened


def asked(path: str, cookie: str, **more: str) -> PageRequest:
    return PageRequest("GET", path, {"cookie": f"{COOKIE}={cookie}", **more})


def test_link_opens_one_browser_once() -> None:
    sessions = Sessions()
    link = sessions.link.partition("=")[2]
    opened = sessions.open(link)
    assert isinstance(opened, Opened)
    assert sessions.judge(asked(opened.folder, opened.cookie)) is None
    again = sessions.open(link)
    assert isinstance(again, Denied)
    assert again.status == HTTPStatus.FORBIDDEN
    assert sessions.link.partition("=")[2] != link


def test_cookie_is_for_its_own_folder_alone_and_for_no_script() -> None:
    sessions = Sessions()
    one, other = let_in(sessions), let_in(sessions)
    assert sessions.judge(asked(other.folder, one.cookie)) is not None
    assert one.header == f"{COOKIE}={one.cookie}; Path={one.folder}; HttpOnly; SameSite=Strict"


def test_no_more_browsers_than_some() -> None:
    sessions = Sessions()
    for _ in range(MOST_SESSIONS):
        let_in(sessions)
    assert isinstance(sessions.open(sessions.link.partition("=")[2]), Denied)


@given(st.text(max_size=60), st.text(st.characters(max_codepoint=255), max_size=60))
def test_nobody_gets_in_with_anything_else(path: str, cookie: str) -> None:
    sessions = Sessions()
    opened = let_in(sessions)
    for folder in (opened.folder, path):
        assert sessions.judge(PageRequest("GET", folder, {"cookie": cookie})) is not None
    assert sessions.judge(asked(path, opened.cookie)) is not None
    assert isinstance(sessions.open(path), Denied)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_of_this_machine_gets_nothing(site: str) -> None:
    """A page of another port is of the same site, and its requests bring cookies."""
    sessions = Sessions()
    opened = let_in(sessions)
    assert sessions.judge(asked(opened.folder, opened.cookie, **{"sec-fetch-site": site})) is not None
    assert sessions.judge(asked(opened.folder, opened.cookie, **{"sec-fetch-site": "same-origin"})) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1", "127.0.0.1:80", f"localhost:{PORT}", "127.0.0.1:8123.evil.example"],
)
def test_other_names_for_this_machine_are_refused(host: str) -> None:
    """`localhost` may be ::1 for a browser, where another user may listen on the same port."""
    denied = judge_request(PageRequest("GET", "/open", {"host": host}), PORT)
    assert denied is not None
    assert denied.status == HTTPStatus.MISDIRECTED_REQUEST


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1:80", "https://127.0.0.1:8123"]
)
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    denied = judge_request(PageRequest("GET", "/open", {**OURS, "origin": origin}), PORT)
    assert denied is not None
    assert denied.status == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_page_is_only_read(method: str) -> None:
    denied = judge_request(PageRequest(method, "/open", OURS), PORT)
    assert denied is not None
    assert denied.status == HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    ("host", "port"), [(f"127.0.0.1:{PORT}", PORT), ("127.0.0.1:80", 80), ("127.0.0.1", 80)]
)
def test_its_own_name_is_its_own(host: str, port: int) -> None:
    """Browsers leave out the port 80 of http."""
    asking = PageRequest("GET", "/x/", {"host": host, "origin": f"http://{host}"})
    assert judge_request(asking, port) is None


@pytest.mark.parametrize(
    ("path", "folder"), [("/a/b/c", "/a/"), ("/a/", "/a/"), ("/a", ""), ("/", ""), ("", "")]
)
def test_folder_is_the_first(path: str, folder: str) -> None:
    assert folder_of(path) == folder
