"""A tenant sees to it that the plan of her own gang cannot be written down, or is nonsense."""

import pytest

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.tenants.installation import SchedulerProcess, Tenant, tile_pod, wait_until_placed
from tests.e2e.tenants.test_forged_plans import forged, plans_unguarded

NONSENSE = {"depth": "[" * 9_000, "digits": '{"version": ' + "9" * 5_000 + "}", "empty": ""}


def test_quota_of_no_config_maps_refuses_that_gang_alone(
    mallory: Tenant, alice: Tenant, control_plane: ControlPlane, scheduler: SchedulerProcess
) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"configmaps": "1"}}}
    path = f"/api/v1/namespaces/{mallory.namespace}/resourcequotas"
    control_plane.client.send("POST", path, quota)
    wait_until(
        "the quota counts",
        lambda: '"used":{"configmaps":"1"}' in control_plane.client.send("GET", f"{path}/none"),
        timeout_s=30,
    )
    mallory.make("Pod", tile_pod("greedy"))
    wait_until(
        "she is told why",
        lambda: any(
            reason == "Refused" and "exceeded quota" in text for reason, text in mallory.events("greedy")
        ),
        timeout_s=30,
    )
    alice.make("Pod", tile_pod("modest"))
    wait_until_placed(alice, "modest")
    assert scheduler.faults() == []


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_plan_of_nonsense_from_before_the_policy_refuses_that_gang_alone(
    nonsense: str, mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess, control_plane: ControlPlane
) -> None:
    scheduler.stop()
    plan = forged(mallory, mallory.make("Pod", tile_pod("greedy")))
    with plans_unguarded(control_plane):
        mallory.make("ConfigMap", {**plan, "data": dict.fromkeys(plan["data"], NONSENSE[nonsense])})
    alice.make("Pod", tile_pod("modest"))
    scheduler.start()
    wait_until_placed(alice, "modest")
    wait_until(
        "she is told what is in the way",
        lambda: any(reason == "Refused" and "delete it" in text for reason, text in mallory.events("greedy")),
        timeout_s=30,
    )
    alice.make("Pod", tile_pod("later"))
    wait_until_placed(alice, "later")
    assert mallory.see("Pod", "greedy")["spec"]["schedulingGates"]
    assert scheduler.faults() == []
