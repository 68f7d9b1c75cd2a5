"""Whether API servers and schedulers take what a driver publishes, and whether it leaves them in peace.

The rules are those of `slicerules`, which names their sources. The API server beside the driver takes
everything, so that a fault is seen and not only that nothing was published.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from accelet.fakekubelet.conformance.bench import Check, FailedError
from accelet.fakekubelet.conformance.dra.bench import DraBench
from accelet.fakekubelet.conformance.dra.slicerules import Rule

_SETTLING_S: Final = 3.0
"""How long a driver may still write after its pool is whole: it may look again at what it wrote."""

_LOOKING_S: Final = 5.0
_LOOK_EACH_S: Final = 0.05
_MOST_WRITES: Final = 2
_MOST_FAULTS: Final = 3


def _breaks_none(*rules: Rule) -> Callable[[DraBench], Awaitable[str]]:
    """A check that nothing published is against these rules."""

    async def check(bench: DraBench) -> str:
        view = await bench.ready()
        faults = [fault.text for fault in bench.faults(view.driver) if fault.rule in rules]
        if faults:
            raise FailedError("; ".join(faults[:_MOST_FAULTS]))
        return f"{' and '.join(rule.value for rule in rules)}: nothing is wrong"

    return check


async def is_quiet(bench: DraBench) -> str:
    """Each write goes to etcd and to every watch of ResourceSlices, the scheduler's first of all.

    The publisher of Kubernetes writes where something has changed, and waits 30 s after foreign events
    (k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go, DefaultSyncDelay).
    """
    view = await bench.ready()
    await asyncio.sleep(_SETTLING_S)
    seen = set(_versions(bench, view.driver))
    before = len(seen)
    for _ in range(int(_LOOKING_S / _LOOK_EACH_S)):
        await asyncio.sleep(_LOOK_EACH_S)
        seen.update(_versions(bench, view.driver))
    if (writes := len(seen) - before) > _MOST_WRITES:
        raise FailedError(f"it wrote {writes} times in {_LOOKING_S:g} s although nothing had changed")
    return f"{writes} writes in {_LOOKING_S:g} s"


def _versions(bench: DraBench, driver: str) -> list[tuple[object, object]]:
    return [(one["metadata"]["name"], one["metadata"]["resourceVersion"]) for one in bench.slices(driver)]


PUBLISHING: Final[tuple[Check[DraBench], ...]] = (
    Check("D3", "publishes a pool that schedulers accept", _breaks_none(Rule.POOL, Rule.SIZE)),
    Check("D10", "consumes counters that are there, and no more than there is", _breaks_none(Rule.COUNTERS)),
    Check("D11", "gives names and keys that API servers accept", _breaks_none(Rule.NAMES)),
    Check("D12", "gives values that API servers accept", _breaks_none(Rule.VALUES)),
    Check("D13", "gives taints that API servers accept", _breaks_none(Rule.TAINTS)),
    Check("D14", "keeps devices and counters in slices of their own", _breaks_none(Rule.SEPARATE)),
    Check("D15", "gives capacities that can be asked for", _breaks_none(Rule.CAPACITIES)),
    Check("D16", "writes nothing while nothing changes", is_quiet),
)
