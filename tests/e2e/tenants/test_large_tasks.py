"""A tenant's GPUTask is as large as an API server stores, so that there is no room for its status."""

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from accelet.kinds.gputask import GPU_TASKS, MOST_TEXT
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.tenants.installation import SchedulerProcess, Tenant, scheduler_kubeconfig

_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gputasks.{GPU_TASKS.group}"
_FIT, _TOO_MANY = 7_500, 8_524
"""Labels of 196 bytes, beside what the API server itself writes of them: 8,025 of them are 1.5 MiB."""

_TOO_LARGE = ("too large", "larger than max")


@pytest.fixture(scope="module")
def controller(
    control_plane: ControlPlane, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchedulerProcess]:
    """The task controller, as deploy/tasks installs it."""
    folder = tmp_path_factory.mktemp("tasks")
    kubectl = binaries.path("kubectl")
    parts = (*build(DEPLOY / "crds", kubectl), *build(DEPLOY / "tasks", kubectl))
    shipped = [each for each in parts if each["kind"] != "Deployment"]
    (settings,) = (each["data"]["config.yaml"] for each in shipped if each["kind"] == "ConfigMap")
    (folder / "config.yaml").write_text(settings)
    wait_until(
        "the kind of former tests is gone",
        lambda: control_plane.client.try_get(_DEFINITION) is None,
        timeout_s=180,
    )
    with control_plane.workloads.applied(shipped):
        path = f"/apis/{GPU_TASKS.api_version}/gputasks"
        wait_until(f"{path} is served", partial(control_plane.client.try_get, path), timeout_s=30)
        process = SchedulerProcess(
            scheduler_kubeconfig(control_plane, folder / "kubeconfig", "accelet-task-controller"),
            folder / "config.yaml",
            folder / "log",
            ("task-controller",),
        )
        process.start()
        yield process
        process.stop()


def make_task(name: str, texts: Sequence[str] = (), **metadata: object) -> Json:
    container = {"image": "none", "args": list(texts)}
    named = {"name": name, **metadata}
    return {
        "apiVersion": GPU_TASKS.api_version,
        "kind": "GPUTask",
        "metadata": named,
        "spec": {"container": container},
    }


def may_make_tasks(tenant: Tenant) -> bool:
    """The rights are added to the role `edit` by a controller of the cluster."""
    try:
        tenant.client.send("GET", tenant.path("GPUTask"))
    except RefusedError:
        return False
    return True


def wait_until_begun(tenant: Tenant, name: str) -> None:
    wait_until(
        f"{name} has a Job",
        lambda: tenant.see("GPUTask", name).get("status", {}).get("job"),
        timeout_s=30,
        evidence=lambda: str(tenant.see("GPUTask", name).get("status")),
    )


def labels(count: int) -> Json:
    return {f"{number:05}.{'a' * 57}/{'b' * 63}": "c" * 63 for number in range(count)}


def make_as_large_as_it_can_be(tenant: Tenant, name: str) -> None:
    """By labels, of which no schema says how many there may be; not two more have room.

    Its owner may still change it: a request to change an object is a little larger than one to make it.
    """
    fits, too_many = _FIT, _TOO_MANY
    while too_many - fits > 1:
        tried = (fits + too_many) // 2
        try:
            tenant.make("GPUTask", make_task(f"tried-{tried}", labels=labels(tried)))
        except RefusedError as error:
            assert any(text in str(error) for text in _TOO_LARGE), error  # noqa: PT017
            too_many = tried
        else:
            tenant.client.send("DELETE", tenant.path("GPUTask", f"tried-{tried}"))
            fits = tried
    assert _FIT < fits < _TOO_MANY - 1
    tenant.make("GPUTask", make_task(name, labels=labels(fits - 1)))


def test_what_would_leave_no_room_is_refused_when_it_is_made(
    mallory: Tenant, controller: SchedulerProcess
) -> None:
    wait_until("she may make tasks", partial(may_make_tasks, mallory), timeout_s=60)
    half = MOST_TEXT // 2
    told = mallory.refusal("POST", mallory.path("GPUTask"), make_task("long", ["<" * half, "<" * half, "<"]))
    assert "letters together" in told
    selector = make_task("selecting")
    selector["spec"]["nodeSelector"] = {"x" * 1_000_000: "y"}
    assert "at most 317" in mallory.refusal("POST", mallory.path("GPUTask"), selector)
    mallory.make("GPUTask", make_task("largest", ["<" * half, "<" * half], annotations={"x": "y" * 250_000}))
    wait_until_begun(mallory, "largest")
    assert controller.is_running


def test_a_task_without_room_for_its_status_is_told_so_and_harms_nobody(
    mallory: Tenant, alice: Tenant, controller: SchedulerProcess
) -> None:
    for tenant in (mallory, alice):
        wait_until("they may make tasks", partial(may_make_tasks, tenant), timeout_s=60)
    make_as_large_as_it_can_be(mallory, "huge")
    wait_until(
        "she is told",
        lambda: "StatusRefused" in {reason for reason, _ in mallory.events("huge")},
        timeout_s=30,
        evidence=lambda: str(mallory.events("huge")),
    )
    (label,) = labels(1)
    for number in range(20):
        changed = {"metadata": {"labels": {label: f"{number:063}"}}}
        mallory.client.send("PATCH", mallory.path("GPUTask", "huge"), changed)
        alice.make("GPUTask", make_task(f"modest-{number}"))
    for number in range(20):
        wait_until_begun(alice, f"modest-{number}")
    huge = f"{mallory.namespace}/huge"
    assert controller.count("status is refused", huge) == 1
    assert controller.count("trying again", huge) == 0
    assert controller.is_running
    assert controller.faults() == []
    assert controller.longest_line < 5_000
