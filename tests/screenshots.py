"""The pictures of the documents: `python -m tests.screenshots docs/images`."""

import sys
import tempfile
from pathlib import Path

from accelet.fakeapi import FakeApi
from tests.browser import Tab, open_tab
from tests.integration.ui.cluster import fill_small
from tests.integration.ui.conftest import page_of
from tests.terminal import as_page, on_a_terminal

WHOLE = "document.documentElement.dataset.whole === 'true' && document.querySelectorAll('.node').length"
SAID = "document.getElementById('said')"
ACCELET = Path(sys.executable).with_name("accelet")
COLUMNS = 100


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, FakeApi() as api:
        fill_small(api)
        kubeconfig = api.write_kubeconfig(Path(scratch) / "kubeconfig")
        with page_of(kubeconfig) as page, open_tab() as tab:
            tab.look(width=1180, height=740, dark=False)
            tab.open(page.next_link())
            tab.until(WHOLE)
            tab.screenshot(folder / "ui.png")
        with open_tab() as tab:
            picture_of_cards(tab, kubeconfig, Path(scratch), folder / "cards.png")


def picture_of_cards(tab: Tab, kubeconfig: Path, scratch: Path, picture: Path) -> Path:
    """What `accelet cards` prints on a terminal."""
    words = [str(ACCELET), "cards", "--kubeconfig", str(kubeconfig)]
    page = scratch / "cards.html"
    page.write_text(as_page(on_a_terminal(words, COLUMNS), COLUMNS))
    tab.open(page.as_uri())
    tab.until(f"{SAID}.offsetWidth")
    width, height = (int(tab.evaluate(f"{SAID}.offset{side}")) for side in ("Width", "Height"))
    tab.look(width=width + 40, height=height + 32, dark=False)
    return tab.screenshot(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
