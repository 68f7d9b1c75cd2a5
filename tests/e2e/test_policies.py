"""The shipped admission policies on a real API server: what they give pods, and whom they refuse what."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from accelet.accelerators.intel.monitoring import MonitoringMode, monitoring_resources
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kinds.waiting import WAITING_ANNOTATION, WaitingReason, parse_waiting
from accelet.kube.podparser import parse_pod
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX
from accelet.scheduler.gangs.noting import note_patch
from accelet.scheduler.record import LABEL
from accelet.scheduler.release import Lift, lift_patch
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.kubeconfig import Token
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.policies import assignments_out_of_force, gate_out_of_force, policies_in_force
from tests.example_pods import EXAMPLES, example_objects, example_pods

PROJECT = Path(__file__).parents[2]
SCHEDULER = PROJECT / "deploy" / "scheduler.yaml"
I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"
TILES, MILLICORES, MEMORY = "gpu.intel.com/tiles", "gpu.intel.com/millicores", "gpu.intel.com/memory.max"
GATE = {"name": CARDS_GATE}
TOPOLOGY_GATE = {"name": "gke.io/topology-aware-auto-train"}
WISHES = ["gas-allow", "gas-deny", "gas-same-gpu", "gas-allocate-xelink", "gas-allocate-single-numa"]
PROTECTED = [ASSIGNMENT_ANNOTATION, "gas-container-cards", "gas-container-tiles", "gas-ts"]
ASSIGNED = {ASSIGNMENT_ANNOTATION: '{"version":1,"containers":{}}'}
EVERYTHING = [
    {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]} for group in ("", "apps", "batch", "policy")
]


@pytest.fixture(scope="module", params=["newest", "next"])
def control_plane(
    request: pytest.FixtureRequest, cluster: ControlPlane, workspace: Workspace, kubernetes_1_37: Binaries
) -> Iterator[ControlPlane]:
    """The policies run inside the API server: what one version makes of them another may not."""
    if request.param == "newest":
        yield cluster
        return
    with ControlPlane(workspace.part("policies-1.37"), kubernetes_1_37) as next_one:
        next_one.start()
        yield next_one


@pytest.fixture(scope="module", autouse=True)
def policies(control_plane: ControlPlane) -> Iterator[None]:
    with policies_in_force(control_plane.workloads):
        yield


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"policies-{time.time_ns():x}"
    control_plane.workloads.apply({"kind": "Namespace", "metadata": {"name": name}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until("it has an account", lambda: control_plane.client.try_get(accounts), timeout_s=30)
    yield name
    control_plane.client.send("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def user(control_plane: ControlPlane, namespace: str) -> Iterator[Client]:
    """Somebody who may do anything in the namespace, as its administrators may, and nothing elsewhere."""
    rbac = "rbac.authorization.k8s.io"
    here = {"name": "user", "namespace": namespace}
    role = {"kind": "Role", "metadata": here, "rules": EVERYTHING}
    binding = {
        "kind": "RoleBinding",
        "metadata": here,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "user"},
        "subjects": [{"kind": "ServiceAccount", **here}],
    }
    with control_plane.workloads.applied([{"kind": "ServiceAccount", "metadata": here}, role, binding]):
        yield _acting_as(control_plane, namespace, "user")


@pytest.fixture(scope="module")
def scheduler(control_plane: ControlPlane, namespace: str) -> Iterator[Client]:
    """The scheduler's account, with no more than the rights that deploy/scheduler.yaml gives it.

    Its policy is in force: the API server takes policies up some time after they are written.
    """
    manifests = yaml.safe_load_all(SCHEDULER.read_text())
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with control_plane.workloads.applied(each for each in manifests if each["kind"] != "Deployment"):
        acting = _acting_as(control_plane, "kube-system", "accelet-scheduler")
        control_plane.client.send("POST", pods, _pod("judged", _container("main")))
        judged = f"{pods}/judged"
        wait_until("its policy is in force", lambda: _is_judged(acting, judged), timeout_s=30)
        _delete(control_plane, judged)
        yield acting


def _is_judged(scheduler: Client, pod: str) -> bool:
    try:
        scheduler.send("PATCH", f"{pod}?dryRun=All", {"metadata": {"labels": {"mine": "x"}}})
    except RefusedError as refused:
        return "accelet-scheduler" in str(refused) and "holds" in str(refused)
    return False


def _acting_as(control_plane: ControlPlane, namespace: str, account: str) -> Client:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = json.loads(control_plane.client.send("POST", path, {"spec": {}}))
    return Client(
        control_plane.url, Token(answer["status"]["token"]), control_plane.authority.keys.certificate
    )


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _container(name: str, **amounts: str) -> Json:
    return {"name": name, "image": "none", "resources": {"limits": amounts}}


def _asking(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "1")


def _pod(name: str, *containers: Json, **spec: object) -> Json:
    # No scheduler of this cluster takes it, so that nothing happens to it but what a test does.
    spec = {"schedulerName": "nobody", "containers": list(containers), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _made(client: Client, pods: str, pod: Json) -> Json:
    made: Json = json.loads(client.send("POST", pods, pod))
    return made


def _seen(client: Client, path: str) -> Json:
    seen: Json = json.loads(client.send("GET", path))
    return seen


def _is_made(client: Client, pods: str, pod: Json) -> bool:
    try:
        _made(client, pods, pod)
    except RefusedError:
        return False
    return True


def _refusal(client: Client, method: str, path: str, body: Json) -> str:
    """What a person is told who is refused this."""
    with pytest.raises(RefusedError) as refused:
        client.send(method, path, body)
    assert refused.value.status in (403, 422)
    message: str = json.loads(str(refused.value).partition(": ")[2])["message"]
    return message


@pytest.mark.parametrize("part", [TILES, MILLICORES, MEMORY])
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_pod_that_asks_for_a_part_is_gated_and_given_a_card(
    user: Client, pods: str, place: str, part: str
) -> None:
    containers = {"containers": [_container("main")], place: [_container("asking", **_asking(part))]}
    pod = _made(user, pods + "?dryRun=All", _pod("part", **containers))
    assert pod["spec"]["schedulingGates"] == [GATE]
    (asking,) = pod["spec"][place]
    assert asking["resources"]["limits"] == _asking(part, I915)
    assert asking["resources"]["requests"] == _asking(part, I915)


def test_what_a_pod_has_already_is_kept(user: Client, pods: str) -> None:
    twice = [{"name": "LEVEL", "value": "1"}, {"name": "LEVEL", "value": "2"}]
    ports = [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}]
    given = _pod(
        "kept",
        _container("first", **{XE: "2", TILES: "4"}),
        _container("second", cpu="1", memory="1Gi"),
        {**_container("third", cpu="1", **_asking(TILES)), "env": twice, "ports": ports},
        _container("fourth", **{I915: "2", MILLICORES: "100"}),
        schedulingGates=[TOPOLOGY_GATE],
        initContainers=[
            _container("warm-up"),
            {**_container("sidecar", **_asking(MEMORY)), "restartPolicy": "Always"},
        ],
    )
    pod = _made(user, pods + "?dryRun=All", given)["spec"]
    assert pod["schedulingGates"] == [TOPOLOGY_GATE, GATE]
    assert {c["name"]: c["resources"].get("limits") for c in pod["initContainers"] + pod["containers"]} == {
        "warm-up": None,
        "sidecar": _asking(MEMORY, I915),
        "first": {XE: "2", TILES: "4"},
        "second": {"cpu": "1", "memory": "1Gi"},
        "third": {"cpu": "1", **_asking(TILES, I915)},
        "fourth": {I915: "2", MILLICORES: "100"},
    }
    assert [c["name"] for c in pod["containers"]] == ["first", "second", "third", "fourth"]
    assert [c["name"] for c in pod["initContainers"]] == ["warm-up", "sidecar"]
    assert pod["containers"][2]["env"] == twice
    assert pod["containers"][2]["ports"] == ports


def test_card_that_is_added_is_of_the_kind_that_the_pod_names(user: Client, pods: str) -> None:
    beside = _container("beside", **_asking(TILES))
    given = _pod("kin", _container("main", **{XE: "2"}), beside, initContainers=[{**beside, "name": "early"}])
    pod = _made(user, pods + "?dryRun=All", given)["spec"]
    for container in (pod["containers"][1], *pod["initContainers"]):
        assert container["resources"]["limits"] == _asking(TILES, XE)


def test_card_that_is_added_is_that_of_the_namespaces_label(
    control_plane: ControlPlane, user: Client, namespace: str, pods: str
) -> None:
    path = pods + "?dryRun=All"
    pod = _pod("labelled", _container("main", **_asking(TILES)))

    def label(value: str | None) -> None:
        labelled = {"metadata": {"labels": {"accelet.dev/default-card": value}}}
        control_plane.client.send("PATCH", f"/api/v1/namespaces/{namespace}", labelled)

    def limits() -> Json:
        given: Json = _made(user, path, pod)["spec"]["containers"][0]["resources"]["limits"]
        return given

    def is_told_of(value: str) -> bool:
        try:
            _made(user, path, pod)
        except RefusedError as refused:
            return f"accelet.dev/default-card of its namespace is {value}, which is none" in str(refused)
        return False

    label("xe")
    wait_until("the label counts", lambda: limits() == _asking(TILES, XE), timeout_s=30)
    named = _made(user, path, _pod("named", _container("main", **_asking(TILES, I915))))
    assert named["spec"]["containers"][0]["resources"]["limits"] == _asking(TILES, I915)
    label("battlemage")
    wait_until("the label is refused", lambda: is_told_of("battlemage"), timeout_s=30)
    label(None)
    wait_until("nothing is said any more", lambda: _is_made(user, path, pod), timeout_s=30)
    assert limits() == _asking(TILES, I915)


@pytest.mark.parametrize("name", ["gpu.intel.com/monitor", "gpu.intel.com.example.com/i915"])
def test_pod_that_asks_for_what_is_no_card_is_untouched(user: Client, pods: str, name: str) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 80, "name": "again"}]
    pod = _made(
        user, pods + "?dryRun=All", _pod("none", {**_container("main", **_asking(name)), "ports": ports})
    )
    assert "schedulingGates" not in pod["spec"]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == _asking(name)


def test_gate_is_not_given_twice(user: Client, pods: str) -> None:
    given = _pod("twice", _container("main", **_asking(TILES)), schedulingGates=[GATE, TOPOLOGY_GATE])
    pod = _made(user, pods + "?dryRun=All", given)
    assert pod["spec"]["schedulingGates"] == [GATE, TOPOLOGY_GATE]


@pytest.mark.parametrize("amounts", [{I915: "1"}, {XE: "2"}])
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_pod_that_asks_for_cards_alone_is_gated(
    user: Client, pods: str, place: str, amounts: dict[str, str]
) -> None:
    containers = {"containers": [_container("main")], place: [_container("asking", **amounts)]}
    pod = _made(user, pods + "?dryRun=All", _pod("cards", **containers))
    assert pod["spec"]["schedulingGates"] == [GATE]
    assert pod["spec"][place][0]["resources"]["limits"] == amounts


@pytest.mark.parametrize("amounts", [{}, {"cpu": "1"}, {"example.com/i915": "1"}])
def test_pod_that_asks_for_no_card_is_untouched(user: Client, pods: str, amounts: dict[str, str]) -> None:
    pod = _made(user, pods + "?dryRun=All", _pod("plain", _container("main", **amounts)))
    assert "schedulingGates" not in pod["spec"]
    assert pod["spec"]["containers"][0]["resources"].get("limits", {}) == amounts


@pytest.mark.parametrize("wish", WISHES)
def test_pod_that_says_which_cards_is_gated(user: Client, pods: str, wish: str) -> None:
    given = _pod("choosy", _container("main", **{XE: "2"}), _container("other"))
    given["metadata"]["annotations"] = {wish: "card0"}
    pod = _made(user, pods + "?dryRun=All", given)
    assert pod["spec"]["schedulingGates"] == [GATE]
    assert pod["metadata"]["annotations"] == {wish: "card0"}
    assert [c["resources"].get("limits") for c in pod["spec"]["containers"]] == [{XE: "2"}, None]


def test_wish_of_a_pod_without_cards_does_nothing(user: Client, pods: str) -> None:
    given = _pod("other", _container("main", cpu="1"))
    given["metadata"]["annotations"] = {"gas-allow": "card0"}
    assert "schedulingGates" not in _made(user, pods + "?dryRun=All", given)["spec"]


def test_users_of_older_clusters_are_told_what_to_write(
    control_plane: ControlPlane, user: Client, pods: str
) -> None:
    path = pods + "?dryRun=All"
    with gate_out_of_force(control_plane.workloads):
        told = _refusal(user, "POST", path, _pod("bare", _container("main", **_asking(TILES, I915))))
        assert f"A pod with {TILES}, {I915} is held" in told
        assert "add {name: accelet.dev/cards} to spec.schedulingGates" in told
        choosy = _pod("choosy", _container("main", **_asking(XE)))
        choosy["metadata"]["annotations"] = {"gas-deny": "card0"}
        assert f"A pod with {XE} is held" in _refusal(user, "POST", path, choosy)
        early = _container("early", **_asking(MEMORY))
        bare = _pod("bare", _container("main"), initContainers=[early], schedulingGates=[GATE])
        told = _refusal(user, "POST", path, bare)
        assert f"add {I915} or {XE} to resources.limits of early" in told
        _made(user, path, _pod("full", _container("main", **_asking(TILES, XE)), schedulingGates=[GATE]))
        plain = _pod("plain", _container("main", **_asking(I915)))
        assert f"A pod with {I915} is held" in _refusal(user, "POST", path, plain)


def test_pods_of_kube_system_are_gated_too(control_plane: ControlPlane) -> None:
    path = "/api/v1/namespaces/kube-system/pods?dryRun=All"
    pod = _made(control_plane.client, path, _pod("system", _container("main", **_asking(TILES))))
    assert pod["spec"]["schedulingGates"] == [GATE]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_admitted_and_gated(user: Client, namespace: str, pods: str, path: Path) -> None:
    for each in example_objects(path):
        collection = COLLECTIONS[each["kind"]].format(namespace=namespace)
        user.send("POST", collection + "?dryRun=All&fieldValidation=Strict", each)
    for given in example_pods(path):
        pod = _made(user, pods + "?dryRun=All&fieldValidation=Strict", given)
        assert pod["spec"]["schedulingGates"] == [*given["spec"].get("schedulingGates", ()), GATE]
        for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
            limits = container["resources"].get("limits", {}).keys()
            assert (I915 in limits) is bool(limits & {TILES, MILLICORES, MEMORY})


@pytest.mark.parametrize(
    "name", ["accelet-requests", "accelet-assignments", "accelet-plans", "accelet-monitoring"]
)
def test_api_server_finds_no_fault_in_the_types(control_plane: ControlPlane, name: str) -> None:
    path = f"{COLLECTIONS['ValidatingAdmissionPolicy']}/{name}"

    def checked() -> Json | None:
        policy = _seen(control_plane.client, path)
        is_checked = policy["status"].get("observedGeneration") == policy["metadata"]["generation"]
        return policy["status"] if is_checked else None

    status = wait_until("the policy's types are checked", checked, timeout_s=30)
    assert status["typeChecking"].get("expressionWarnings", []) == []


@pytest.mark.parametrize("asked", [(TILES, I915), (I915,), (XE,)])
def test_card_for_a_pod_that_names_its_node_is_refused(
    user: Client, pods: str, asked: tuple[str, ...]
) -> None:
    pod = _pod("placed", _container("main", **_asking(*asked)), nodeName="node-9")
    assert "take spec.nodeName away" in _refusal(user, "POST", pods, pod)


def test_all_cards_are_for_namespaces_of_monitors(
    control_plane: ControlPlane, user: Client, namespace: str, pods: str
) -> None:
    labelled = {"metadata": {"labels": {"accelet.dev/monitoring": "allowed"}}}
    modes: tuple[MonitoringMode, ...] = ("single", "split")
    for mode in modes:
        for name, _ in monitoring_resources(mode):
            pod = _pod("monitor", _container("main", **_asking(name)))
            early = _pod("early", _container("main"), initContainers=[_container("asking", **_asking(name))])
            for each in (pod, early):
                assert "sees every GPU of its node" in _refusal(user, "POST", pods, each)
    control_plane.client.send("PATCH", f"/api/v1/namespaces/{namespace}", labelled)
    wait_until("the label counts", lambda: _is_made(user, pods + "?dryRun=All", pod), timeout_s=30)
    unlabelled = {"metadata": {"labels": {"accelet.dev/monitoring": None}}}
    control_plane.client.send("PATCH", f"/api/v1/namespaces/{namespace}", unlabelled)


def test_part_among_the_requests_alone_is_refused_by_kubernetes(user: Client, pods: str) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": _asking(TILES)}}
    assert "Limit must be set" in _refusal(user, "POST", pods, _pod("lax", container))


@pytest.mark.parametrize("annotation", PROTECTED)
def test_assignment_on_a_new_pod_is_refused(user: Client, pods: str, annotation: str) -> None:
    pod = _pod("forged", _container("main", **_asking(I915)))
    pod["metadata"]["annotations"] = {annotation: "card0"}
    told = _refusal(user, "POST", pods, pod)
    assert f"The annotation {annotation} says which cards" in told
    assert "Leave it out of the pod, and out of the template" in told


def test_administrator_is_refused_too(control_plane: ControlPlane) -> None:
    pod = _pod("forged", _container("main"))
    pod["metadata"]["annotations"] = ASSIGNED
    told = _refusal(control_plane.client, "POST", "/api/v1/namespaces/default/pods", pod)
    assert "only the scheduler" in told


@pytest.fixture
def waiting(control_plane: ControlPlane, user: Client, pods: str) -> Iterator[str]:
    """The path of a pod that its gate holds."""
    _made(user, pods, _pod("waiting", _container("main", cpu="100m", **_asking(TILES))))
    yield f"{pods}/waiting"
    _delete(control_plane, f"{pods}/waiting")


@pytest.fixture
def free(control_plane: ControlPlane, user: Client, pods: str) -> Iterator[str]:
    """The path of a pod that nothing holds, and that has no node yet."""
    _made(user, pods, _pod("free", _container("main")))
    yield f"{pods}/free"
    _delete(control_plane, f"{pods}/free")


def _delete(control_plane: ControlPlane, path: str) -> None:
    control_plane.client.send("DELETE", path, {"gracePeriodSeconds": 0})


@pytest.fixture
def assigned(scheduler: Client, waiting: str) -> str:
    """The path of a pod that the scheduler has just released, by the one patch that it makes."""
    pod = parse_pod(_seen(scheduler, waiting))
    text = ASSIGNED[ASSIGNMENT_ANNOTATION]
    scheduler.send("PATCH", waiting, lift_patch(Lift(pod, "node-9", text), GATE_PREFIX))
    return waiting


@pytest.fixture
def written(scheduler: Client, waiting: str) -> str:
    """The path of a released pod that has all of the annotations that are the scheduler's."""
    patch: Json = lift_patch(Lift(parse_pod(_seen(scheduler, waiting)), "node-9"), GATE_PREFIX)
    patch["metadata"]["annotations"] = dict.fromkeys(PROTECTED, "card0")
    scheduler.send("PATCH", waiting, patch)
    return waiting


def test_scheduler_notes_why_a_pod_waits_and_nothing_beside_it(scheduler: Client, waiting: str) -> None:
    reason = WaitingReason(since=datetime.now(UTC), text="no node has 2 free tiles", cause="NoRoom")
    note = note_patch(parse_pod(_seen(scheduler, waiting)), reason)
    assert note is not None
    scheduler.send("PATCH", waiting, note)
    noted = _seen(scheduler, waiting)
    assert parse_waiting(noted["metadata"]["annotations"][WAITING_ANNOTATION]) == reason
    assert [gate["name"] for gate in noted["spec"]["schedulingGates"]] == [CARDS_GATE]
    for more in (ASSIGNED, {"gas-ts": "1"}, {"mine": "x"}):
        body: Json = {"metadata": {"annotations": {WAITING_ANNOTATION: None, **more}}}
        told = _refusal(scheduler, "PATCH", waiting, body)
        assert "changes those alone that say an assignment, or why it waits" in told
    scheduler.send("PATCH", waiting, lift_patch(Lift(parse_pod(noted), "node-9"), GATE_PREFIX))
    assert WAITING_ANNOTATION not in (_seen(scheduler, waiting)["metadata"].get("annotations") or {})


def test_scheduler_writes_an_assignment_and_lifts_the_gate_at_once(scheduler: Client, assigned: str) -> None:
    pod = _seen(scheduler, assigned)
    assert "schedulingGates" not in pod["spec"]
    assert pod["metadata"]["annotations"] == ASSIGNED


@pytest.mark.parametrize("annotation", PROTECTED)
@pytest.mark.parametrize("value", ["card1", None], ids=["changed", "removed"])
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_assignment_once_written_stays(
    user: Client, written: str, subresource: str, value: str | None, annotation: str
) -> None:
    patch = {"metadata": {"annotations": {annotation: value}}}
    told = _refusal(user, "PATCH", written + subresource, patch)
    assert f"The annotation {annotation} says" in told
    assert "delete the pod and make it anew" in told


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_assignment_cannot_be_added_later(user: Client, waiting: str, subresource: str) -> None:
    told = _refusal(user, "PATCH", waiting + subresource, {"metadata": {"annotations": ASSIGNED}})
    assert "only the scheduler" in told


@pytest.mark.parametrize(
    ("subresource", "spec"),
    [
        ("ephemeralcontainers", {"ephemeralContainers": [{"name": "look", "image": "none"}]}),
        ("resize", {"containers": [_container("main", cpu="200m", **_asking(TILES, I915))]}),
    ],
)
def test_other_subresources_carry_no_assignment(
    user: Client, waiting: str, subresource: str, spec: Json
) -> None:
    pod = _seen(user, waiting)
    pod["metadata"]["annotations"] = ASSIGNED
    pod["spec"] |= spec
    # The API server takes the one change that the subresource is for, and drops the others.
    user.send("PUT", f"{waiting}/{subresource}", pod)
    assert "annotations" not in _seen(user, waiting)["metadata"]
    assert _seen(user, waiting)["spec"]["schedulingGates"] == [GATE]


@pytest.mark.parametrize("way", ["pods/free/binding", "bindings"])
def test_binding_carries_no_assignment(user: Client, free: str, way: str) -> None:
    binding: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "free", "annotations": ASSIGNED},
        "target": {"kind": "Node", "name": "node-9"},
    }
    path = free.removesuffix("pods/free") + way
    assert "only the scheduler" in _refusal(user, "POST", path, binding)
    assert "annotations" not in _seen(user, free)["metadata"]
    del binding["metadata"]["annotations"]
    user.send("POST", path, binding)
    assert _seen(user, free)["spec"]["nodeName"] == "node-9"


def test_template_with_an_assignment_makes_no_pod(
    control_plane: ControlPlane, user: Client, namespace: str
) -> None:
    labels = {"app": "forged"}
    template = _pod("", _container("main", **_asking(I915)))
    template["metadata"] = {"labels": labels, "annotations": ASSIGNED}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "forged"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    user.send("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)

    def told() -> str:
        conditions = _seen(user, f"/apis/apps/v1/namespaces/{namespace}/deployments/forged")["status"].get(
            "conditions", []
        )
        return "".join(each["message"] for each in conditions if each["type"] == "ReplicaFailure")

    message = wait_until("the Deployment says why it has no pods", told, timeout_s=60)
    assert "out of the template it is made from" in message
    listed = _seen(user, f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dforged")
    assert listed["items"] == []
    control_plane.client.send("DELETE", f"/apis/apps/v1/namespaces/{namespace}/deployments/forged")


def test_gate_is_lifted_by_nobody_else(user: Client, waiting: str) -> None:
    told = _refusal(user, "PATCH", waiting, {"spec": {"schedulingGates": []}})
    assert "only the scheduler" in told
    assert "may lift it" in told
    pod = _seen(user, waiting)
    del pod["spec"]["schedulingGates"]
    assert "may lift it" in _refusal(user, "PUT", waiting, pod)
    assert _seen(user, waiting)["spec"]["schedulingGates"] == [GATE]


def test_administrator_lifts_the_gate_when_the_binding_is_taken_away(
    control_plane: ControlPlane, waiting: str
) -> None:
    lift = {"spec": {"schedulingGates": None}}
    assert "may lift it" in _refusal(control_plane.client, "PATCH", waiting, lift)
    with assignments_out_of_force(control_plane.workloads):
        control_plane.client.send("PATCH", waiting, lift)
    assert "schedulingGates" not in _seen(control_plane.client, waiting)["spec"]


def test_users_change_what_is_theirs(user: Client, waiting: str) -> None:
    asked = {"gas-allow": "card0", "gas-deny": "card1", "example.com/note": "mine"}
    user.send("PATCH", waiting, {"metadata": {"annotations": asked, "labels": {"app": "mine"}}})
    user.send("PATCH", f"{waiting}/status", {"status": {"message": "hello"}})
    assert _seen(user, waiting)["metadata"]["annotations"] == asked


def test_plan_is_written_by_the_scheduler_alone(user: Client, scheduler: Client, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    name = "accelet-plan-of-a-gang"
    plan: Json = {"metadata": {"name": name, "labels": {LABEL: "v1"}}, "data": {"plan.json": "{}"}}
    told = _refusal(user, "POST", path, plan)
    assert f"the label {LABEL}, is a plan of the scheduler" in told
    scheduler.send("POST", path, plan)
    for change in ({"data": {"plan.json": "[]"}}, {"metadata": {"labels": {LABEL: None}}}):
        assert "only it" in _refusal(user, "PATCH", f"{path}/{name}", change)
    user.send("POST", path, {"metadata": {"name": "mine"}})
    assert "only it" in _refusal(user, "PATCH", f"{path}/mine", {"metadata": {"labels": {LABEL: "v1"}}})
    user.send("DELETE", f"{path}/{name}")
