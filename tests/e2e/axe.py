"""axe-core, which judges pages by the rules of WCAG: fetched once from PyPI, run in a tab."""

import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.browser import Tab
from tests.e2e.cluster.cache import cache_folder, locked

REQUIREMENT = Path(__file__).with_name("axe.txt")
MEMBER = "axe_playwright_python/axe.min.js"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule of axe that an element breaks, with the element's beginning and what is wrong."""

    rule: str
    element: str
    why: str


def fetch() -> str:
    """The script of axe-core.

    Raises:
        subprocess.CalledProcessError: PyPI has no file with the hash of the requirement.
    """
    wanted = REQUIREMENT.read_text().partition("sha256:")[2].strip()
    folder = cache_folder("axe")
    script = folder / f"{wanted[:16]}.js"
    with locked(folder / "lock"):
        if not script.exists():
            _download(script)
    return script.read_text()


def _download(script: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        wanted = ["--no-deps", "--only-binary=:all:", "--require-hashes", f"--requirement={REQUIREMENT}"]
        subprocess.run([*command, *wanted, "--dest", scratch], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            half_done = script.with_suffix(".part")
            half_done.write_bytes(archive.read(MEMBER))
            half_done.rename(script)


def judge(tab: Tab) -> list[Fault]:
    """What axe finds wrong with the page as it is now."""
    if not tab.evaluate("Boolean(globalThis.axe)"):
        tab.evaluate(f"{{{fetch()}}}; true")
    options = {"runOnly": {"type": "tag", "values": list(RULES)}, "resultTypes": ["violations"]}
    found: list[dict[str, Any]] = tab.evaluate(
        f"axe.run(document, {json.dumps(options)}).then((said) => said.violations)"
    )
    return [
        Fault(one["id"], node["html"][:200], node["failureSummary"]) for one in found for node in one["nodes"]
    ]
