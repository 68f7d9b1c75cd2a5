"""What a task's template may say of its pods, how it is merged, and what it cannot change."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from accelet.gputask.objects.manifests import job_body
from accelet.gputask.objects.overlay import OverlayError, lay_over
from accelet.kinds.gputask import (
    TaskCapabilities,
    TaskCards,
    TaskContainer,
    TaskContainerSecurity,
    TaskField,
    TaskKey,
    TaskMoves,
    TaskPodSecurity,
    TaskPullSecret,
    TaskSeccomp,
    TaskValueSource,
    TaskVariable,
    TaskVolume,
)
from tests.unit.gputask.world import make_task

PREFIX = "gke.io/topology-aware-auto-"
CARDS = TaskCards(cards=2, tiles=4)


def template(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = job_body(make_task(spec=spec), 3, PREFIX, None)["spec"]["template"]
    return made


def overlaid(text: str | dict[str, Any], **spec: Any) -> dict[str, Any]:
    return template(template=text if isinstance(text, str) else yaml.safe_dump(text), **spec)


def test_a_pod_of_a_restricted_namespace_can_be_written() -> None:
    seccomp = TaskSeccomp(type="RuntimeDefault")
    security = TaskContainerSecurity(
        allow_privilege_escalation=False, capabilities=TaskCapabilities(drop=("ALL",))
    )
    pod = template(
        container=TaskContainer(image="app", security_context=security),
        security_context=TaskPodSecurity(run_as_non_root=True, run_as_user=1000, seccomp_profile=seccomp),
    )["spec"]

    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_what_clusters_ask_of_every_pod_is_written_as_of_a_pod() -> None:
    made = template(
        container=TaskContainer(
            image="app", shm_size="16Gi", resources={"rdma/hca": 1, "hugepages-2Mi": "1Gi"}
        ),
        cards=TaskCards(resource="nvidia.com/gpu", cards=8),
        image_pull_secrets=(TaskPullSecret(name="registry"),),
        runtime_class_name="nvidia",
        pod_labels={"team": "vision"},
        pod_annotations={"sidecar.istio.io/inject": "false"},
    )
    pod, metadata = made["spec"], made["metadata"]
    (container,) = pod["containers"]

    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["runtimeClassName"] == "nvidia"
    assert metadata["labels"]["team"] == "vision"
    assert metadata["annotations"]["sidecar.istio.io/inject"] == "false"
    asked = {"rdma/hca": "1", "hugepages-2Mi": "1Gi", "nvidia.com/gpu": "8"}
    assert container["resources"] == {"limits": asked, "requests": asked}
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    assert (mount["mountPath"], mount["name"]) == ("/dev/shm", volume["name"])
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (
            TaskValueSource(secret_key_ref=TaskKey(name="hub", key="token")),
            {"secretKeyRef": {"name": "hub", "key": "token"}},
        ),
        (
            TaskValueSource(config_map_key_ref=TaskKey(name="c", key="k", optional=True)),
            {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}},
        ),
        (
            TaskValueSource(field_ref=TaskField(field_path="status.podIP")),
            {"fieldRef": {"fieldPath": "status.podIP"}},
        ),
    ],
)
def test_a_variable_may_come_from_elsewhere(source: TaskValueSource, written: dict[str, Any]) -> None:
    own = TaskContainer(image="app", env=(TaskVariable(name="TOKEN", value_from=source),))
    (container,) = template(container=own)["spec"]["containers"]

    assert {"name": "TOKEN", "valueFrom": written} in container["env"]


def test_lists_are_merged_by_their_keys_and_null_takes_away() -> None:
    own = TaskContainer(image="app", env=(TaskVariable(name="A", value="1"),), cpu=4)
    made = overlaid(
        """
        metadata: {labels: {queue: batch}}
        spec:
          hostIPC: true
          priorityClassName: null
          tolerations: [{key: a, operator: Exists}]
          containers:
            - name: main
              env: [{name: A, value: "2"}, {name: B, value: "3"}]
              ports: [{containerPort: 9000}]
            - {name: logs, image: logs, resources: {limits: {memory: 64Mi}}}
        """,
        container=own,
        replicas=4,
        priority_class_name="high",
    )
    main, logs = made["spec"]["containers"]

    assert made["metadata"]["labels"]["queue"] == "batch"
    assert made["spec"]["hostIPC"] is True
    assert "priorityClassName" not in made["spec"]
    said = {one["name"]: one.get("value") for one in main["env"]}
    assert (said["A"], said["B"], said["PET_NNODES"]) == ("2", "3", "4")
    assert (main["image"], main["ports"]) == ("app", [{"containerPort": 9000}])
    assert logs == {"name": "logs", "image": "logs", "resources": {"limits": {"memory": "64Mi"}}}


FORBIDDEN = {
    "its gate": ("{spec: {schedulingGates: null}}", "spec.schedulingGates"),
    "the node": ("{spec: {nodeName: n}}", "say nodeSelector instead"),
    "who restarts": ("{spec: {restartPolicy: Always}}", "say onFailure.restart instead"),
    "its end": ("{spec: {terminationGracePeriodSeconds: 5}}", "say graceSeconds instead"),
    "its name": ("{spec: {hostname: mine}}", "find each other"),
    "its domain": ("{spec: {subdomain: other}}", "find each other"),
    "another scheduler": ("{spec: {schedulerName: mine}}", "accelet decides this"),
    "claims": ("{spec: {resourceClaims: [{name: a}]}}", "accelet decides this"),
    "whose it is": ("{metadata: {labels: {accelet.dev/task: other}}}", "metadata.labels[accelet.dev/task]"),
    "its labels": ("{metadata: {labels: null}}", "metadata.labels[accelet.dev/task]"),
    "its metadata": ("{metadata: null}", "template.metadata"),
    "its wishes": (
        "{metadata: {annotations: {accelet.dev/gang-min: null}}}",
        "annotations[accelet.dev/gang-min]",
    ),
    "cards": (
        "{spec: {containers: [{name: main, resources: {limits: {gpu.intel.com/i915: 1}}}]}}",
        "limits[gpu.intel.com/i915]",
    ),
    "no cards": ("{spec: {containers: [{name: main, resources: null}]}}", "limits[gpu.intel.com/i915]"),
    "more parts": (
        "{spec: {containers: [{name: main, resources: {limits: {gpu.intel.com/millicores: 1}}}]}}",
        "limits[gpu.intel.com/millicores]",
    ),
    "cards for others": (
        "{spec: {initContainers: [{name: a, image: a, resources: {limits: {gpu.intel.com/i915: 1}}}]}}",
        "initContainers[a].resources.limits[gpu.intel.com/i915]",
    ),
    "its container": ("{spec: {containers: null}}", "must stay"),
    "the file it is asked by": (
        "{spec: {volumes: [{name: accelet-asked, emptyDir: {}}]}}",
        "volumes[accelet-asked]",
    ),
    "the place of that": (
        "{spec: {containers: [{name: main, volumeMounts: [{mountPath: /run/accelet/task, name: x}]}]}}",
        "volumeMounts[/run/accelet/task]",
    ),
    "a directive": ("{spec: {containers: [{name: main, $patch: delete}]}}", "directives"),
    "no list": ("{spec: {containers: {name: main}}}", "must be a list"),
    "no mapping": ("{spec: {containers: [{name: main, resources: 5}]}}", "must be a mapping"),
    "no key": ("{spec: {containers: [{image: a}]}}", "an entry needs its name"),
    "one twice": ("{spec: {containers: [{name: a}, {name: a}]}}", "two entries have the same name"),
    "another part": ("{status: {}}", "has the mappings metadata and spec"),
    "a text": ("hello", "must be a mapping"),
    "a number as a name": ("{spec: {1: a}}", "must be a text"),
    "no YAML": ("{", "not YAML"),
    "a date": ("{spec: {a: 2026-01-01}}", "no YAML of JSON's values"),
    "no number": ("{spec: {a: .nan}}", "no YAML of JSON's values"),
    "two documents": ("{}\n---\n{}", "not YAML"),
    "aliases": ("a: &a [x]\nspec: {a: *a}", "aliases"),
    "depth": ("{spec: " + "[" * 5000 + "]" * 5000 + "}", "nested more than 32 deep"),
}


@pytest.mark.parametrize(("text", "reason"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_accelet_relies_on_is_not_the_templates_to_say(text: str, reason: str) -> None:
    with pytest.raises(OverlayError) as told:
        overlaid(text, replicas=4, min_replicas=2, cards=CARDS, move=TaskMoves(save_seconds=5))

    assert str(told.value).startswith("template")
    assert reason in str(told.value)
    assert len(str(told.value)) < 500


def test_cards_are_not_asked_for_by_a_gate() -> None:
    with pytest.raises(OverlayError, match="asked for in the task's cards"):
        overlaid("{spec: {schedulingGates: [{name: accelet.dev/cards}]}}")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab$", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("name", "env", "main", "limits", "x", "$patch")), inner, max_size=3
        )
    ),
    max_leaves=12,
)
_FIELDS = (
    "containers",
    "volumes",
    "schedulingGates",
    "nodeName",
    "subdomain",
    "hostIPC",
    "labels",
    "annotations",
)


@given(
    st.dictionaries(
        st.sampled_from(("metadata", "spec", "kind")),
        st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4),
    )
)
@example({"metadata": {"annotations": None}})
def test_any_template_is_refused_in_a_sentence_or_leaves_what_is_accelets(given: dict[str, Any]) -> None:
    own = TaskContainer(image="app", volumes=(TaskVolume(mount_path="/data", claim="data"),))
    spec: dict[str, Any] = {"replicas": 2, "cards": CARDS, "container": own}
    plain = template(**spec)
    made = _made_or_told(given, spec)
    if isinstance(made, str):
        assert made.startswith("template")
        return
    assert made["metadata"]["labels"].items() >= plain["metadata"]["labels"].items()
    # A template may take away the annotations where the task has none of its own.
    assert made["metadata"].get("annotations", {}).items() >= plain["metadata"]["annotations"].items()
    assert all(gate in made["spec"]["schedulingGates"] for gate in plain["spec"]["schedulingGates"])
    main = next(one for one in made["spec"]["containers"] if one["name"] == "main")
    assert main["resources"] == plain["spec"]["containers"][0]["resources"]
    assert "nodeName" not in made["spec"]
    assert made["spec"]["subdomain"] == plain["spec"]["subdomain"]
    json.dumps(made)


def _made_or_told(given: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any] | str:
    try:
        return overlaid(json.dumps(given), **spec)
    except OverlayError as error:
        return str(error)


def test_no_template_changes_nothing() -> None:
    made = template(replicas=2, cards=CARDS)
    for text in ("", "  \n", "{}", "{spec: {}, metadata: {}}"):
        assert overlaid(text, replicas=2, cards=CARDS) == made
    assert lay_over(made, "") == made
