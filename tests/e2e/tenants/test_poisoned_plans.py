"""A tenant sees to it that the plan of her own gang cannot be written down."""

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.tenants.installation import SchedulerProcess, Tenant, tile_pod, wait_until_placed


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
