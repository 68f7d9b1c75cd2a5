"""How a process ends, seen from outside: its exit code, and what a user reads."""

import json
import subprocess
import sys
from typing import Any

import pytest

from accelet.control.installed import explain_install

SCRIPT = """
import sys
from accelet.cli.ending import run_process
from accelet.control.errors import NotLeadingError
from accelet.kube.errors import ConfigurationError
from accelet.runtime.logs import configure_logs
from accelet.runtime.probes import AddressError
from accelet.runtime.run import FatalError
from accelet.runtime.settings import Mistake, SettingsError
from accelet.runtime.tasks import task_group

async def fail(error):
    raise error

async def main():
    async with task_group() as tasks:
        tasks.create_task(fail({error}))

async def end():
    pass

configure_logs("info")
run_process({main}())
"""


def ended(error: str, main: str = "main") -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, lines of the log, and what else was written."""
    script = SCRIPT.format(error=error, main=main)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    return done.returncode, logged, "\n".join(line for line in lines if not line.startswith("{"))


@pytest.mark.parametrize("kind", ["FatalError", "ConfigurationError", "NotLeadingError"])
def test_error_that_was_foreseen_is_a_sentence_in_the_log(kind: str) -> None:
    code, logged, said = ended(f"{kind}('why')")
    assert (code, said) == (1, "")
    assert [(line["msg"], line.get("reason")) for line in logged] == [
        ("cannot go on", "why"),
        ("ended", None),
    ]


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        ("AddressError('port 1 is taken')", ["--http: port 1 is taken"]),
        ("SettingsError([Mistake('f', 1, '', 'a'), Mistake('f', 2, '', 'b')])", ["f:1: a", "f:2: b"]),
    ],
)
def test_what_a_user_got_wrong_is_in_the_log_line_by_line(error: str, problems: list[str]) -> None:
    code, logged, said = ended(error)
    assert (code, said) == (2, "")
    assert [line["problem"] for line in logged if line["msg"] == "settings are wrong"] == problems


def test_fault_of_ours_is_one_line_of_the_log_and_no_traceback_before_a_user() -> None:
    code, logged, said = ended("ZeroDivisionError('why')")
    assert (code, said) == (1, "")
    assert logged[0]["msg"] == "fault; cannot go on"
    assert "ZeroDivisionError: why" in logged[0]["exc_info"]
    assert "ExceptionGroup" not in logged[0]["exc_info"]


def test_end_without_an_error_is_no_failure() -> None:
    code, logged, _ = ended("None", main="end")
    assert (code, [line["msg"] for line in logged]) == (0, ["ended"])


@pytest.mark.parametrize("name", ["kubernetes", "urllib3"])
def test_package_of_an_extra_that_is_missing_is_told_with_its_extra(name: str) -> None:
    code, logged, said = ended(f"ModuleNotFoundError('no', name='{name}')")
    assert (code, said) == (2, "")
    assert logged[0]["reason"] == f"what is configured needs kubernetes: {explain_install('cluster')}"


def test_other_module_that_is_missing_is_a_fault_of_ours() -> None:
    code, logged, said = ended("ModuleNotFoundError('no', name='accelet.x')")
    assert (code, said) == (1, "")
    assert logged[0]["msg"] == "fault; cannot go on"
