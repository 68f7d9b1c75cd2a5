"""Pods, Jobs, JobSets and StatefulSets that ask for TPUs, well and badly, as the API server takes them."""

from typing import Any

from hypothesis import strategies as st

from accelet.provisioner.identity.names import (
    ADDRESSES,
    COORDINATOR,
    COORDINATOR_ADDRESS,
    FIRST_SLICE,
    HOSTNAMES,
    INDEX,
    JOB_INDEX,
    JOB_SET,
    LEADER_WORKER_SET,
    MEGASCALE_PORT,
    NUM_SLICES,
    POD_INDEX,
    PORT,
    SLICE_ID,
    SLICES,
    TPU_ENV,
    WORKER_ID,
    WORKERS,
)
from tests.unit.provisioner.manifests import ACCELERATOR, TOPOLOGY

Json = dict[str, Any]

SLICES_SOLD = [
    ("tpu-v6e-slice", "4x4", "4", 4),
    ("tpu-v6e-slice", "2x2", "4", 1),
    ("tpu-v5-lite-podslice", "2x4", "8", 1),
    ("tpu-v5-lite-podslice", "2x4", "4", 2),
    ("tpu-v5p-slice", "2x2x4", "4", 4),
    ("tpu7x", "2x2x2", "4", 2),
    ("tpu7x", "2x2x1", "4", 1),
    ("tpu-v4-podslice", "4x4x4", "4", 16),
]
_names = st.sampled_from(["train", "a", "w-0", "x" * 40])
_variables = st.sampled_from(
    [WORKER_ID, HOSTNAMES, ADDRESSES, PORT, NUM_SLICES, SLICE_ID, COORDINATOR_ADDRESS, MEGASCALE_PORT, "MINE"]
)
_values = st.sampled_from(["", "0", "3", "localhost", "a-0.svc,a-1.svc", "$(MINE)-ü", "long"])


def _rarely(strategy: st.SearchStrategy[Any], usual: Any) -> st.SearchStrategy[Any]:
    """Mostly what is right: else hardly anything would get past the first check."""
    return st.sampled_from([False, False, False, False, False, True]).flatmap(
        lambda odd: strategy if odd else st.just(usual)
    )


@st.composite
def _entries(draw: st.DrawFn) -> Json:
    name = draw(_variables)
    if draw(st.integers(0, 5)) == 0:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    value = draw(_values)
    return {"name": name, "value": "v" * 131_070 if value == "long" and draw(st.booleans()) else value}


@st.composite
def _containers(draw: st.DrawFn, name: str, amount: str) -> Json:
    container: Json = {"name": name, "image": "none"}
    if amount != "0" or draw(st.booleans()):
        container["resources"] = {"limits": {"google.com/tpu": amount}}
    env = draw(_rarely(st.lists(_entries(), max_size=4), []))
    return container | ({"env": env} if env else {})


@st.composite
def _affinities(draw: st.DrawFn, selected: dict[str, str]) -> Json:
    """Required node affinity by which pods select these labels, with a mistake here and there."""
    expressions = [
        {
            "key": key,
            "operator": draw(_rarely(st.just("NotIn"), "In")),
            "values": draw(_rarely(st.just([value, "other"]), [value])),
        }
        for key, value in selected.items()
    ]
    beside = {"key": "kubernetes.io/os", "operator": "Exists"}
    again = {"key": ACCELERATOR, "operator": "In", "values": ["tpu-v9"]}
    expressions += draw(_rarely(st.sampled_from([[beside], [again]]), []))
    term = {"matchExpressions": expressions}
    terms = draw(_rarely(st.sampled_from([[term, term], [{**term, "matchExpressions": [beside]}]]), [term]))
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@st.composite
def templates(draw: st.DrawFn, sold: tuple[str, str, str, int]) -> Json:
    """A template for pods of one of the slices that are sold, with a mistake here and there."""
    accelerator, topology, chips, _ = sold
    amount = draw(_rarely(st.sampled_from(["1", "3", "8", "2", "0"]), chips))
    containers = [draw(_containers("main", amount))]
    if draw(st.integers(0, 4)) == 0:
        more = draw(st.sampled_from(["0", "0", "4"]))
        containers.insert(draw(st.integers(0, 1)), draw(_containers("beside", more)))
    spec: Json = {"containers": containers}
    if draw(st.integers(0, 6)) == 0:
        beside: Json = draw(_containers("init", draw(st.sampled_from(["0", "4"]))))
        spec["initContainers"] = [beside | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})]
    wrong = st.sampled_from(["5x5", "4x4", "4xq", "2x2", "2x2x2"])
    selector = {
        ACCELERATOR: draw(_rarely(st.sampled_from(["tpu-v6e-slice", "tpu-v9"]), accelerator)),
        TOPOLOGY: draw(_rarely(wrong, topology)),
    }
    for key in draw(_rarely(st.sampled_from([[ACCELERATOR], [TOPOLOGY], [ACCELERATOR, TOPOLOGY]]), [])):
        del selector[key]
    both = [[ACCELERATOR], [TOPOLOGY], [ACCELERATOR, TOPOLOGY]]
    if moved := [key for key in draw(_rarely(st.sampled_from(both), [])) if key in selector]:
        spec["affinity"] = draw(_affinities({key: selector.pop(key) for key in moved}))
    spec["nodeSelector"] = selector
    labels = draw(
        _rarely(st.sampled_from([{LEADER_WORKER_SET: "a"}, {"app.kubernetes.io/name": "kuberay"}]), {})
    )
    notes = draw(_rarely(st.sampled_from([{TPU_ENV: "off"}, {TPU_ENV: "single-slice"}]), {}))
    metadata = {key: value for key, value in (("labels", labels), ("annotations", notes)) if value}
    return {"spec": spec} | ({"metadata": metadata} if metadata else {})


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod as its controller, or a person, makes it."""
    sold = draw(st.sampled_from(SLICES_SOLD))
    template = draw(templates(sold))
    metadata: Json = template.setdefault("metadata", {})
    labels, notes = dict(metadata.get("labels", {})), dict(metadata.get("annotations", {}))
    owner, kinds = draw(_names), ["Job", "Job", "Job", "Job", "StatefulSet", "ReplicaSet", "Widget", ""]
    kind, hosts = draw(st.sampled_from(kinds)), sold[3]
    index = str(draw(_rarely(st.sampled_from([hosts, 99, 7]), draw(st.integers(0, hosts - 1)))))
    if kind == "Job" and draw(_rarely(st.just(value=False), usual=True)):
        notes[INDEX] = draw(_rarely(st.sampled_from(["", "x", "-1", "01"]), index))
    if kind == "StatefulSet" and draw(st.booleans()):
        labels[POD_INDEX] = index
    if kind in ("Job", "StatefulSet") and draw(_rarely(st.just(value=False), usual=True)):
        notes[WORKERS] = draw(_rarely(st.sampled_from(["0", "7", "x", "2305", "1"]), str(hosts)))
        template["spec"]["hostname"] = draw(_rarely(st.just("other"), f"{owner}-{index}"))
        template["spec"]["subdomain"] = "svc"
        if draw(st.integers(0, 8)) == 0:
            del template["spec"][draw(st.sampled_from(["hostname", "subdomain"]))]
    if kind == "Job" and draw(st.booleans()):
        labels |= {JOB_SET: "js", JOB_INDEX: draw(_rarely(st.sampled_from(["9", "x"]), "1"))}
        notes |= {SLICES: draw(_rarely(st.sampled_from(["1", "x", "9999"]), "4"))}
        notes |= {FIRST_SLICE: draw(_rarely(st.sampled_from(["3", "-1", ""]), "2"))}
        notes |= {COORDINATOR: draw(_rarely(st.sampled_from(["", "W", "a b"]), "w"))}
    references = [{"apiVersion": _GROUPS[kind], "kind": kind, "name": owner, "uid": "u", "controller": True}]
    metadata |= {"name": f"{owner}-{index}", "labels": labels, "annotations": notes}
    metadata |= {"ownerReferences": references if kind else []}
    return {"apiVersion": "v1", "kind": "Pod", **template}


_GROUPS = {"Job": "batch/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1", "Widget": "a.b/v1", "": ""}


@st.composite
def _job_specs(draw: st.DrawFn) -> Json:
    sold = draw(st.sampled_from(SLICES_SOLD))
    template = draw(templates(sold))
    template["spec"]["restartPolicy"] = "Never"
    if draw(st.integers(0, 6)):
        template["spec"]["subdomain"] = "svc"
    pods = draw(_rarely(st.sampled_from([1, 2, 3]), sold[3]))
    spec: Json = {"template": template, "completions": pods, "backoffLimit": 0}
    spec["parallelism"] = draw(_rarely(st.sampled_from([0, 1]), pods))
    spec["completionMode"] = draw(_rarely(st.just("NonIndexed"), "Indexed"))
    return spec


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """A Job of a person's."""
    metadata = {"name": draw(_names)} if draw(st.booleans()) else {"generateName": "train-"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": draw(_job_specs())}


@st.composite
def job_sets(draw: st.DrawFn) -> Json:
    """A JobSet of up to four replicatedJobs, of which some are alike."""
    replicated: list[Json] = []
    same = draw(_job_specs())
    for name in draw(st.lists(st.sampled_from("wxyz"), min_size=1, max_size=4, unique=True)):
        spec = dict(draw(_rarely(_job_specs(), same)))
        if draw(st.integers(0, 5)) == 0:
            del spec[draw(st.sampled_from(["completions", "parallelism", "completionMode"]))]
        one: Json = {"name": name, "template": {"spec": spec}}
        one |= draw(st.sampled_from([{}, {"replicas": 2}, {"replicas": 3}, {"replicas": 0}]))
        one |= draw(_rarely(st.just({"groupName": "other"}), {}))
        replicated.append(one)
    body: Json = {"replicatedJobs": replicated}
    body |= draw(_rarely(st.just({"network": {"enableDNSHostnames": False}}), {}))
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": body,
    }


@st.composite
def stateful_sets(draw: st.DrawFn) -> Json:
    """A StatefulSet."""
    sold = draw(st.sampled_from(SLICES_SOLD))
    template = draw(templates(sold))
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {"app": "a", **metadata.get("labels", {})}
    spec = {
        "template": template,
        "replicas": draw(_rarely(st.sampled_from([0, 1, 8]), sold[3])),
        "selector": {"matchLabels": {"app": "a"}},
    }
    if draw(st.integers(0, 6)):
        spec["serviceName"] = "svc"
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": spec}
