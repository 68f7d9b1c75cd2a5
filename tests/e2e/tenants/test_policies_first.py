"""A tenant writes plans before anybody forbids it: nothing is placed until the policy is in force."""

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.tenants.installation import (
    SchedulerProcess,
    Tenant,
    assigned_tiles,
    tile_pod,
    wait_until_placed,
)
from tests.e2e.tenants.test_forged_plans import forged, plans_unguarded

NOT_IN_FORCE = "policies are not in force; what they guard is not believed"


def test_nothing_is_placed_before_the_policies_are_in_force(
    mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess, control_plane: ControlPlane
) -> None:
    scheduler.stop()
    alice.make("Pod", tile_pod("modest"))
    seen = mallory.make("Pod", tile_pod("greedy"))
    with plans_unguarded(control_plane):
        mallory.make("ConfigMap", forged(mallory, seen))
        scheduler.start()
        wait_until(
            "it says what it waits for",
            lambda: scheduler.says(NOT_IN_FORCE, "accelet-plans"),
            timeout_s=60,
        )
        assert alice.see("Pod", "modest")["spec"]["schedulingGates"]
        assert mallory.see("Pod", "greedy")["spec"]["schedulingGates"]
    assert len(assigned_tiles(wait_until_placed(alice, "modest", within_s=90))) == 1
    assert len(assigned_tiles(wait_until_placed(mallory, "greedy"))) == 1
