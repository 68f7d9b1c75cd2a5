"""A tenant's pods have so many names that they fill the scheduler's memory."""

from collections.abc import Callable

import pytest

from tests.e2e.tenants.installation import Tenant, pod, tile_pod, wait_until_placed
from tests.e2e.tenants.pods.processes import RunningProcess

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]


def test_names_without_end_are_not_kept_for_good(
    mallory: Tenant, alice: Tenant, scheduler: RunningProcess, say: Say
) -> None:
    """Of resources that no node offers, and of nodes that there are not."""
    alice.make("Pod", tile_pod("before"))
    wait_until_placed(alice, "before")
    before_mib = scheduler.used_mib()
    for number in range(5):
        body = pod(f"wide-{number}", {f"x.y/{number}-{index}": "1" for index in range(6_000)})
        body["spec"]["nodeName"] = f"nowhere-{number}"
        mallory.make("Pod", body)
    alice.make("Pod", tile_pod("after"))
    wait_until_placed(alice, "after")
    grown_mib = scheduler.used_mib() - before_mib
    say(f"\nfive pods of 6,000 names each cost the scheduler {grown_mib:.0f} MiB")
    assert grown_mib < 150, "five pods once took 820 MiB"
    assert scheduler.is_running
