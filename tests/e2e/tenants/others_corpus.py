"""The same of Moves, of the original's tasks, and of kinds of strangers: Kueue's, and such as make pods."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from accelet.kinds.move import ENDED, HOLDS, UNDER_WAY
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from tests.e2e.cluster.https_client import Json
from tests.e2e.tenants.corpus import AMOUNTS, DEVICES, DIGITS, TEXTS, WHOLE, metadata
from tests.e2e.tenants.kinds_corpus import FOREVER, LABELS, MOMENTS, WORDS, some

STRANGERS: Mapping[str, tuple[str, str, str]] = {
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "Workload": ("kueue.x-k8s.io", "v1beta2", "workloads"),
    "AdmissionCheck": ("kueue.x-k8s.io", "v1beta2", "admissionchecks"),
    "ResourceFlavor": ("kueue.x-k8s.io", "v1beta2", "resourceflavors"),
    "Topology": ("kueue.x-k8s.io", "v1beta2", "topologies"),
    "ProvisioningRequest": ("autoscaling.x-k8s.io", "v1", "provisioningrequests"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "MPIJob": ("kubeflow.org", "v1", "mpijobs"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "SparkApplication": ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
    "PodGroup": ("corpus.example", "v1beta1", "podgroups"),
}
"""Group, version and plural of kinds whose schemas allow anything here. The true PodGroup is not served."""

COUNTS = st.integers(-(2**63), FOREVER) | st.none()
STATES = st.sampled_from(["True", "False", "Unknown", ""])
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)


def definition(kind: str) -> Json:
    """The kind of a stranger."""
    group, version, plural = STRANGERS[kind]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


@st.composite
def strangers(draw: st.DrawFn, kind: str) -> Json:
    """One of a stranger's kind; its status is as whoever may write all of it says."""
    group, version, _ = STRANGERS[kind]
    spec, status = SHAPES[kind]
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": draw(metadata())}
    return {**body, "spec": draw(spec), "status": draw(status)}


@st.composite
def moves(draw: st.DrawFn) -> Json:
    node = st.sampled_from(["a", "b", "0" * 253])
    place = st.fixed_dictionaries(
        {
            "rank": st.integers(0, 4095),
            "podUid": WORDS.filter(bool),
            "fromNode": node,
            "toNode": node,
        },
        optional={"fromCards": TEXTS.map(_cut), "toCards": TEXTS.map(_cut)},
    )
    gain = st.fixed_dictionaries(
        {"kind": st.sampled_from(["Drain", "LetsIn", "Nearer", "Packs", "Person"])},
        optional={"text": TEXTS.map(_cut), "letsIn": WORDS},
    )
    spec = {
        "task": {"name": "t", "uid": draw(WORDS.filter(bool)), "attempt": draw(st.integers(1, 9999))},
        "takes": draw(st.dictionaries(WORDS, st.integers(0, 2**46), max_size=3)),
        "places": draw(st.lists(place, min_size=1, max_size=8)),
        "gain": draw(gain),
        "validUntil": draw(MOMENTS),
    }
    phases = sorted({"Proposed", "Approved", *ENDED, *HOLDS, *UNDER_WAY})
    said = some(
        phase=st.sampled_from(phases),
        reason=WORDS,
        why=TEXTS.map(_cut),
        saveBy=MOMENTS,
        leftAt=MOMENTS,
        endedAt=MOMENTS,
        conditions=st.lists(
            st.builds(
                lambda kind, status, since, text: {
                    "type": kind,
                    "status": status,
                    "lastTransitionTime": since,
                    "message": text,
                },
                WORDS,
                STATES.filter(bool),
                MOMENTS,
                TEXTS.map(_cut),
            ),
            max_size=8,
        ),
    )
    body = {"apiVersion": "accelet.dev/v1alpha1", "kind": "Move", "metadata": draw(metadata())}
    return {**body, "spec": spec, "status": draw(said)}


@st.composite
def original_tasks(draw: st.DrawFn) -> Json:
    amount = AMOUNTS | WHOLE | st.integers(1, FOREVER)
    named = draw(metadata())
    named = {**named, "name": draw(NAMES) + draw(st.uuids()).hex[:8]}
    named.pop("generateName")
    spec = {
        "memory": draw(amount),
        "cpu": draw(amount),
        "gpu": draw(st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True)),
        "gpu-amount": draw(st.integers(1, 64) | st.integers(1, 64).map(str)),
        "priority": draw(WORDS),
    }
    return {"apiVersion": "falldio.com/v1", "kind": "GPUTask", "metadata": named, "spec": spec}


@st.composite
def budgets(draw: st.DrawFn) -> Json:
    """A tenant may write these."""
    expression = st.builds(
        lambda operator, values: {
            "key": "a",
            "operator": operator,
            **({"values": values} if operator in ("In", "NotIn") else {}),
        },
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.lists(st.sampled_from(["", "b", "0" * 63]), min_size=1, max_size=3),
    )
    selector = some(matchLabels=LABELS, matchExpressions=st.lists(expression, max_size=20))
    allowed = st.integers(0, 2**31 - 1) | st.integers(0, 100).map("{}%".format)
    spec = {
        draw(st.sampled_from(["minAvailable", "maxUnavailable"])): draw(allowed),
        "selector": draw(selector),
    }
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": draw(metadata()),
        "spec": spec,
    }


def _cut(text: str) -> str:
    return text[:1000]


def _is_some(value: object) -> bool:
    return value is not None


def _always(
    fields: Mapping[str, st.SearchStrategy[Any]], **more: st.SearchStrategy[Any]
) -> st.SearchStrategy[Json]:
    """These fields, and any of the others."""
    return st.fixed_dictionaries(dict(fields), optional=more)


def _template() -> st.SearchStrategy[Json]:
    container = st.builds(
        lambda limits: {"name": "main", "image": "none", "resources": {"limits": limits}}, DEVICES
    )
    return st.builds(
        lambda one, gate, notes: {
            "metadata": {"annotations": notes},
            "spec": {"containers": [one], "schedulingGates": [{"name": gate}]},
        },
        container,
        st.sampled_from([f"{GATE_PREFIX}x", "x.y/z"]),
        st.dictionaries(st.sampled_from(["gas-allow", "x.y/z"]), DIGITS, max_size=2),
    )


def _conditions(*kinds: str) -> st.SearchStrategy[Sequence[Json]]:
    one = st.builds(
        lambda kind, status, since, text: {
            "type": kind,
            "status": status,
            "reason": "x",
            "message": text,
            "lastTransitionTime": since,
        },
        st.sampled_from(kinds) | TEXTS,
        STATES,
        MOMENTS,
        TEXTS,
    )
    return st.lists(one, max_size=4)


def _queued() -> tuple[st.SearchStrategy[Json], st.SearchStrategy[Json]]:
    pod_set = _always({"template": _template()}, name=st.sampled_from(["main", "w"]), count=COUNTS)
    sets = st.lists(pod_set, max_size=10)
    spec = _always({"podSets": sets}, priority=COUNTS, active=st.booleans())
    assigned = some(
        name=st.sampled_from(["main", "w"]),
        count=COUNTS,
        flavors=st.dictionaries(WORDS, WORDS, max_size=2),
        topologyAssignment=TEXTS,
    )
    check = st.builds(
        lambda name, state, count: {"name": name, "state": state, "retryCount": count}, TEXTS, TEXTS, COUNTS
    )
    status = some(
        conditions=_conditions("QuotaReserved", "Admitted", "Evicted", "Finished"),
        admission=some(podSetAssignments=st.lists(assigned, max_size=10)),
        admissionChecks=st.lists(check, max_size=10),
    )
    return spec, status


def _replicas(field: str) -> st.SearchStrategy[Json]:
    groups = st.dictionaries(
        st.sampled_from(["Launcher", "Worker"]) | TEXTS, some(replicas=COUNTS), max_size=4
    )
    return st.builds(
        lambda said, policy: {field: said, "launcherCreationPolicy": policy},
        groups,
        st.sampled_from(["WaitForWorkersReady", "AtStartup"]),
    )


NOTHING: st.SearchStrategy[Any] = st.just({})
SHAPES: Mapping[str, tuple[st.SearchStrategy[Json], st.SearchStrategy[Json]]] = {
    "Workload": _queued(),
    "AdmissionCheck": (
        _always({"controllerName": TEXTS}, parameters=TEXTS),
        some(conditions=_conditions("Active")),
    ),
    "ResourceFlavor": (
        some(nodeLabels=LABELS, tolerations=st.lists(some(key=WORDS, tolerationSeconds=COUNTS), max_size=3)),
        NOTHING,
    ),
    "Topology": (
        _always({"levels": st.lists(_always({"nodeLabel": WORDS}), max_size=20)}, other=TEXTS),
        NOTHING,
    ),
    "ProvisioningRequest": (
        _always(
            {
                "provisioningClassName": WORDS,
                "podSets": st.lists(
                    st.builds(
                        lambda count: {"podTemplateRef": {"name": "x"}, "count": count},
                        COUNTS.filter(_is_some),
                    ),
                    max_size=4,
                ),
            }
        ),
        some(
            conditions=_conditions("Accepted", "Provisioned", "Failed"),
            provisioningClassDetails=st.dictionaries(st.just("SliceSet"), TEXTS),
        ),
    ),
    "LeaderWorkerSet": (
        _always({"leaderWorkerTemplate": some(size=COUNTS)}, startupPolicy=TEXTS, replicas=COUNTS),
        NOTHING,
    ),
    "PyTorchJob": (_replicas("pytorchReplicaSpecs"), NOTHING),
    "MPIJob": (
        _replicas("mpiReplicaSpecs"),
        some(replicaStatuses=st.dictionaries(st.sampled_from(["Worker"]), some(active=COUNTS))),
    ),
    "RayCluster": (
        some(
            workerGroupSpecs=st.lists(
                some(
                    groupName=TEXTS,
                    replicas=COUNTS,
                    minReplicas=COUNTS,
                    maxReplicas=COUNTS,
                    numOfHosts=COUNTS,
                ),
                max_size=4,
            )
        ),
        NOTHING,
    ),
    "SparkApplication": (
        some(
            executor=some(instances=COUNTS),
            dynamicAllocation=some(enabled=st.booleans(), initialExecutors=COUNTS, minExecutors=COUNTS),
        ),
        NOTHING,
    ),
    "PodGroup": (
        some(
            schedulingPolicy=some(gang=some(minCount=COUNTS)),
            schedulingConstraints=some(topology=st.lists(some(key=TEXTS), max_size=3)),
            parentCompositePodGroupName=TEXTS,
        ),
        NOTHING,
    ),
}
"""Spec and status of objects of these kinds."""
