import logging
from typing import Any

import pytest

from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (record.levelname, record.message, record.values)  # type: ignore[attr-defined]
        for record in caplog.records
    ]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def test_failure_is_said_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(Log("test", resource="r"), "writing fails", "writing works again")
    failing.worked()
    failing.failed(OSError("full"), file="f")
    failing.failed(OSError("gone"))
    assert failing.is_failing
    failing.worked()
    failing.worked()
    assert not failing.is_failing
    failing.failed("again")
    assert lines(caplog) == [
        ("WARNING", "writing fails", {"resource": "r", "error": "full", "file": "f"}),
        ("INFO", "writing works again", {"resource": "r"}),
        ("WARNING", "writing fails", {"resource": "r", "error": "again"}),
    ]


def test_another_reason_is_said_where_each_counts(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(Log("test"), "cannot audit", level="info", tells_each=True, named="reason")
    for reason in ("a", "a", "b"):
        failing.failed(reason)
    failing.worked()
    failing.failed("b")
    assert lines(caplog) == [("INFO", "cannot audit", {"reason": reason}) for reason in ("a", "b", "b")]


def test_bound_values_are_in_every_line(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("test").bind(resource="r").bind(kind="k")
    log.info("one", kind="other", more=1)
    log.exception("two", cause=ValueError("x"))
    assert lines(caplog) == [
        ("INFO", "one", {"resource": "r", "kind": "other", "more": 1}),
        ("ERROR", "two", {"resource": "r", "kind": "k"}),
    ]
