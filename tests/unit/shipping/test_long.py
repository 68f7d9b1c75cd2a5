"""The list of tests that take long names tests that there are."""

import ast
from functools import cache
from pathlib import Path

from tests.long import LIST, find_long, read_long

ROOT = Path(__file__).parents[3]

_REPORT = """
<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_quick[2]" time="0.2"/>
<testcase classname="tests.unit.test_a" name="test_slow[1]" time="0.1"/>
<testcase classname="tests.unit.test_a" name="test_slow[2]" time="2.1"/>
</testsuite></testsuites>
"""


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found)


def test_every_test_of_the_list_is_there() -> None:
    listed = LIST.read_text(encoding="utf-8").split()
    assert listed == sorted(read_long())
    gone = [one for one in listed if one.partition("::")[2] not in _tests_of(one.partition("::")[0])]
    assert gone == [], "measure anew, as tests/long.py says"


def test_a_test_is_long_if_one_of_its_runs_is() -> None:
    assert find_long(_REPORT) == ["tests/unit/test_a.py::test_slow"]
