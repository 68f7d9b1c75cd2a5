"""Objects made at random, as far from what anybody means as an API server may still store them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION
from accelet.gputask.objects.names import APPROVE, SAVE, SAVED
from accelet.kinds.waiting import WAITING_ANNOTATION
from accelet.kinds.wish import MOVE_TO
from accelet.provisioner.demand.slices import PROVISION, SLICE_CLASS
from accelet.provisioner.identity.names import (
    COORDINATOR,
    FIRST_SLICE,
    JOB_INDEX,
    JOB_SET,
    SLICES,
    TPU_ENV,
    WORKERS,
)
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GANG_MIN, GANG_SIZE, GATE_PREFIX, GangKey
from accelet.scheduler.gangs.jobs import MAY_SUSPEND, SUSPENDED
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL, PREFERRED_LEVEL, REQUIRED_LEVEL
from accelet.scheduler.record import Placement, Record
from tests.e2e.cluster.https_client import Json

T = TypeVar("T")


def seldom(rare: st.SearchStrategy[T], usual: st.SearchStrategy[T], one_in: int = 30) -> st.SearchStrategy[T]:
    return st.integers(1, one_in).flatmap(lambda chosen: rare if chosen == one_in // 2 else usual)


# Python reads no more than 4,300 digits unless it is told to.
DIGITS = st.text("0123456789", min_size=1, max_size=30) | seldom(
    st.sampled_from([4_300, 4_301, 5_000]), st.integers(1, 300)
).map(lambda size: "9" * size)
# Each time that an API server writes a number with 20,000 noughts at its end takes it a quarter of a second,
# with 5,000 a sixteenth of that, and it does so some fifty times for a pod: of the largest a few will do.
EXPONENTS = seldom(
    st.sampled_from([20_000, -20_000]),
    seldom(st.sampled_from([5_000, -5_000]), st.integers(-1_500, 1_500)),
    one_in=1_000,
)
AMOUNTS = st.tuples(
    DIGITS,
    st.just("") | DIGITS.map(lambda digits: f".{digits}"),
    st.sampled_from(["", "n", "u", "m", "k", "Ki", "E", "Ei"]) | EXPONENTS.map("e{}".format),
).map("".join)
WHOLE = DIGITS | EXPONENTS.map(abs).map("1e{}".format)
BRACKETS = st.integers(0, 20_000).map(lambda size: "[" * size)
TEXTS = DIGITS | st.text(max_size=50) | BRACKETS
NOTES = st.dictionaries(
    st.sampled_from(
        [
            *(
                GANG_SIZE,
                GANG_MIN,
                REQUIRED_LEVEL,
                PREFERRED_LEVEL,
                EXCLUSIVE_LEVEL,
                EXCLUSIVE,
                MAY_SUSPEND,
                SUSPENDED,
            ),
            *("gas-same-gpu", "gas-allow", "gas-deny", "gas-allocate-xelink", "gas-allocate-single-numa"),
            *(WAITING_ANNOTATION, MOVE_TO, APPROVE, SAVE, SAVED),
            *(WORKERS, SLICES, FIRST_SLICE, COORDINATOR, TPU_ENV, PROVISION, SLICE_CLASS),
            *("kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-slice-size"),
            *("batch.kubernetes.io/job-index-failure-count", "kubernetes.io/config.mirror", "x.y/z"),
        ]
    ),
    TEXTS,
    max_size=4,
)
LABELS = st.dictionaries(
    st.sampled_from(
        [
            *(
                "job-name",
                "batch.kubernetes.io/job-name",
                JOB_SET,
                JOB_INDEX,
                "leaderworkerset.sigs.k8s.io/name",
            ),
            *("leaderworkerset.sigs.k8s.io/size", "leaderworkerset.sigs.k8s.io/worker-index", "ray.io/group"),
            *("kueue.x-k8s.io/queue-name", "training.kubeflow.org/job-name", "spark-role", "x.y/z"),
        ]
    ),
    st.sampled_from(["", "x"]) | st.integers(1, 63).map(lambda size: "9" * size),
    max_size=3,
)
LIMITS = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), AMOUNTS, max_size=3)
DEVICES = st.dictionaries(
    st.sampled_from(["x.y/z", "gpu.intel.com/i915", "gpu.intel.com/tiles", "gpu.intel.com/memory.max"]),
    WHOLE,
    max_size=3,
)
CARDS = TEXTS | st.tuples(DIGITS, DIGITS).map(
    lambda said: (
        '{"version": 1, "cards": [{"unit": "0000-01-00.0", "resource": "gpu.intel.com/i915",'
        f' "shares": {said[0]}, "tiles": [{{"index": {said[1]}}}]}}]}}'
    )
)


@st.composite
def metadata(draw: st.DrawFn, notes: st.SearchStrategy[Mapping[str, str]] = NOTES) -> Json:
    fields: Json = {}
    for _ in range(draw(st.integers(0, 300))):
        fields = {"f:a": fields}
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {
        "generateName": "corpus-",
        "labels": {"corpus": "y", **draw(LABELS)},
        "annotations": draw(notes),
        "managedFields": [{**entry, "fieldsV1": fields}],
    }


def _requirements(operators: Sequence[str]) -> st.SearchStrategy[Json]:
    return st.builds(
        lambda key, operator, size: {
            "key": key,
            "operator": operator,
            **({"values": [str(number) for number in range(size)]} if operator in ("In", "NotIn") else {}),
            **({"values": ["9" * min(size, 63)]} if operator in ("Gt", "Lt") else {}),
        },
        st.sampled_from(["corpus", "kubernetes.io/hostname", "x.y/z"]),
        st.sampled_from(operators),
        st.integers(1, 20) | seldom(st.just(5_000), st.integers(20, 60)),
    )


def _affinities() -> st.SearchStrategy[Json]:
    """By nodes and by pods, short and endless."""
    of_nodes = _requirements(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    term = st.lists(of_nodes, max_size=4).map(lambda found: {"matchExpressions": found})
    many = seldom(st.just(3_000), st.just(1)).flatmap(
        lambda size: st.lists(term, min_size=1, max_size=3).map(lambda terms: terms * size)
    )
    of_pods = st.lists(_requirements(("In", "NotIn", "Exists", "DoesNotExist")), max_size=4)
    apart = st.builds(
        lambda found, key: {"topologyKey": key, "labelSelector": {"matchExpressions": found}},
        of_pods,
        st.sampled_from(["kubernetes.io/hostname", "x.y/z"]),
    )
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return st.fixed_dictionaries(
        {},
        optional={
            "nodeAffinity": many.map(lambda terms: {required: {"nodeSelectorTerms": terms}}),
            "podAntiAffinity": st.lists(apart, max_size=5).map(lambda terms: {required: terms}),
        },
    )


@st.composite
def pods(draw: st.DrawFn) -> Json:
    limits = {**draw(LIMITS), **draw(DEVICES)}
    container: Json = {"name": "main", "image": "none", "resources": {"limits": limits}}
    ports = draw(st.lists(st.integers(1, 65_535), max_size=2, unique=True))
    container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    selector = draw(seldom(st.just(20_000), st.integers(0, 3)))
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": draw(st.sampled_from([0, 1, 9_000_000_000, 2**63 - 1])),
        "containers": [container],
        "nodeSelector": {f"a{number}": "" for number in range(selector)},
        "affinity": draw(_affinities()),
        "schedulingGates": [{"name": f"{GATE_PREFIX}{draw(st.sampled_from('abc'))}"}],
        "tolerations": [
            {
                "key": "k",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": draw(st.integers(0, 2**63 - 1)),
            }
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": draw(metadata()), "spec": spec}


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """They are suspended: their controller makes no pods of them."""
    container = {"name": "main", "image": "none", "resources": {"limits": draw(DEVICES)}}
    spec = {
        "suspend": True,
        "parallelism": draw(st.integers(0, 100_000)),
        "completions": draw(st.integers(0, 100_000)),
        "activeDeadlineSeconds": draw(st.integers(1, 2**63 - 1)),
        "backoffLimit": draw(st.integers(0, 2**31 - 1)),
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": draw(metadata()), "spec": spec}


@st.composite
def nodes(draw: st.DrawFn) -> Json:
    """As whoever has taken a node over writes it."""
    notes = st.fixed_dictionaries({NODE_CARDS_ANNOTATION: CARDS})
    amounts = {**draw(LIMITS), **draw(DEVICES)}
    seconds = draw(st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]))
    ready = {"type": "Ready", "status": "True", "reason": "x", "lastTransitionTime": seconds}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    # No pod of the other tests is for it.
    spec = {"taints": [{"key": "corpus", "effect": "NoSchedule"}], "unschedulable": True}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": draw(metadata(notes))}
    return {**body, "spec": spec, "status": status}


@st.composite
def plans(draw: st.DrawFn, namespace: str) -> Json:
    """As whoever has the scheduler's token writes them."""
    name, kind = draw(st.uuids()).hex, draw(st.sampled_from(["pod", "job"]))
    placement = Placement("p", "u", draw(st.text(max_size=50)), draw(TEXTS))
    body = dict(Record(GangKey(namespace, name, kind), (placement,), 0, 0).to_body())
    named = cast("Json", body["metadata"])
    named = {**named, "labels": {**named["labels"], "corpus": "y"}}
    ((entry, text),) = cast("dict[str, str]", body["data"]).items()
    spoilt = st.one_of(
        st.just(text),
        DIGITS.map(lambda digits: text.replace("0", digits, 3)),
        BRACKETS.map(lambda brackets: text.replace("[", brackets, 3)),
        TEXTS,
    )
    return {**body, "apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {entry: draw(spoilt)}}
