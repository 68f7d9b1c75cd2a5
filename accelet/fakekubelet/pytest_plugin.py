"""pytest fixtures for anyone who writes a device plugin; comes with `pip install accelet[testing]`.

`kubelet_dir` is a folder with a short path, `fake_kubelet` a running fake kubelet in it, and
`make_fake_kubelet` makes others. `--kubelet-version` and `--kubelet-seed` choose for all of them; a
failing test shows the seed and what happened. Nothing heavy is imported until a fixture is used.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_asyncio import fixture as async_fixture

    from accelet.fakekubelet import FakeKubelet
else:
    # Every pytest run beside accelet finds this module; only those with the extra can use its fixtures.
    try:
        from pytest_asyncio import fixture as async_fixture
    except ImportError:
        async_fixture = pytest.fixture

_KUBELETS = pytest.StashKey["list[FakeKubelet]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fake kubelet")
    group.addoption(
        "--kubelet-version", default="1.36", metavar="1.36", help="which kubelet the fake one behaves like"
    )
    group.addoption(
        "--kubelet-seed", type=int, default=None, metavar="N", help="repeat the random choices of another run"
    )


@pytest.fixture
def kubelet_dir() -> Iterator[Path]:
    """An empty folder in place of /var/lib/kubelet; its path is short, as socket paths have to be."""
    # A plugin that runs on for a moment may make its socket again while the folder is being removed.
    with TemporaryDirectory(prefix="kubelet-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@async_fixture
async def make_fake_kubelet(
    request: pytest.FixtureRequest, kubelet_dir: Path
) -> "AsyncIterator[Callable[..., FakeKubelet]]":
    """Makes a fake kubelet in `kubelet_dir`, not yet started; takes what FakeKubelet takes.

    All are stopped when the test ends.
    """
    from accelet.fakekubelet import FakeKubelet  # noqa: PLC0415 - gRPC is not to load for every pytest run

    kubelets = request.node.stash.setdefault(_KUBELETS, [])
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> FakeKubelet:
            options.setdefault("version", request.config.getoption("--kubelet-version"))
            options.setdefault("seed", request.config.getoption("--kubelet-seed"))
            kubelet = FakeKubelet(kubelet_dir, **options)
            kubelets.append(kubelet)
            stack.push_async_callback(kubelet.stop)
            return kubelet

        yield make


@async_fixture
async def fake_kubelet(
    make_fake_kubelet: "Callable[..., FakeKubelet]",
) -> "AsyncIterator[FakeKubelet]":
    """A running fake kubelet in `kubelet_dir`."""
    async with make_fake_kubelet() as kubelet:
        yield kubelet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for kubelet in item.stash.get(_KUBELETS, []):
            what = f"fake kubelet {kubelet.version}, seed {kubelet.seed}"
            report.sections.append((what, "\n".join(map(str, kubelet.trace))))
    return report
