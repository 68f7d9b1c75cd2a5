"""Which tests take long: `make test` leaves them to `make test-long`, or to `make properties`.

They are those of which one run took more than two seconds, as a report of pytest has it. To measure anew:
`.venv/bin/pytest -n 6 --dist worksteal --junitxml=build/tests.xml`, then
`.venv/bin/python -m tests.long build/tests.xml`.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

MARK = "long"
LIST = Path(__file__).with_name("long.txt")
LONG_S = 2.0


def read_long() -> frozenset[str]:
    """Their ids without parameters: `tests/unit/test_costs.py::test_name`."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def find_long(report: str) -> list[str]:
    """The ids of the tests in a report of pytest that took long, in order."""
    found: set[str] = set()
    for case in ElementTree.fromstring(report).iter("testcase"):
        if float(case.get("time", "0")) > LONG_S:
            file = f"{case.get('classname', '').replace('.', '/')}.py"
            found.add(f"{file}::{case.get('name', '').partition('[')[0]}")
    return sorted(found)


if __name__ == "__main__":
    LIST.write_text("\n".join(find_long(Path(sys.argv[1]).read_text(encoding="utf-8"))) + "\n")
