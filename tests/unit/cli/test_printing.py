"""There is one way in which commands print for people."""

import re
from pathlib import Path

PRODUCT = Path(__file__).parents[3] / "accelet"
ONE_WAY = {"accelet/cli/drawing/output.py", "accelet/cli/drawing/records.py"}


def test_nothing_else_prints_through_rich_or_escapes_markup() -> None:
    sources = {str(path.relative_to(PRODUCT.parent)): path.read_text() for path in PRODUCT.rglob("*.py")}
    markup = re.compile(r"rich\.(console|markup|table)|from_markup|\[/\]")
    assert {name for name, text in sources.items() if markup.search(text)} <= ONE_WAY
    assert sources["accelet/cli/drawing/output.py"].count("markup=False") == 1
