"""The pictures of the page for the documents: `python -m tests.screenshots docs/images`."""

import sys
import tempfile
from pathlib import Path

from accelet.fakeapi import FakeApi
from tests.browser import open_tab
from tests.integration.ui.cluster import fill_small
from tests.integration.ui.conftest import page_of

WHOLE = "document.documentElement.dataset.whole === 'true' && document.querySelectorAll('.node').length"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, FakeApi() as api:
        fill_small(api)
        with page_of(api.write_kubeconfig(Path(scratch) / "kubeconfig")) as page, open_tab() as tab:
            tab.look(width=1180, height=740, dark=False)
            tab.open(page.next_link())
            tab.until(WHOLE)
            tab.screenshot(folder / "ui.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
