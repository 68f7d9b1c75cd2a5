"""Runs checks of a DRA driver, each with a cluster, a kubelet and a driver of its own."""

from collections.abc import Callable, Sequence

from accelet.fakekubelet.conformance.bench import Check
from accelet.fakekubelet.conformance.dra.bench import Cluster, DraBench
from accelet.fakekubelet.conformance.launch import Launcher
from accelet.fakekubelet.conformance.runner import Result, run_on_benches


async def run_dra_checks(
    checks: Sequence[Check[DraBench]],
    launcher: Launcher,
    make_cluster: Callable[[], Cluster],
    *,
    version: str = "1.36",
    driver: str | None = None,
    jobs: int = 1,
    done: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Runs `checks`, `jobs` at a time; the results are in their order. `done` hears each as it comes.

    If D1 is the first and fails there is nothing to see in the others.
    """

    def bench() -> DraBench:
        return DraBench(launcher, make_cluster, version, driver)

    why = "it does not register and publish (see D1)"
    return await run_on_benches(checks, bench, gate=("D1", why), jobs=jobs, done=done)
