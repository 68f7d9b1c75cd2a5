"""The same of our own kinds, of claims, and of the workloads and Services that belong to them."""

from typing import Any

from hypothesis import strategies as st

from accelet.dra.names import DRIVERS
from accelet.gputask.objects.names import RANK, TASK, TASK_UID
from tests.e2e.cluster.https_client import Json
from tests.e2e.tenants.corpus import AMOUNTS, BRACKETS, DEVICES, NOTES, TEXTS, WHOLE, metadata

WORDS = st.text(max_size=63)
LABELS = st.dictionaries(st.sampled_from(["a", "x.y/z"]), st.sampled_from(["", "b", "0" * 63]))
FOREVER = 2**63 - 1
MOMENTS = st.sampled_from(
    ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "2026-06-30T23:59:59.5+23:59"]
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Any of the fields, or none."""
    return st.fixed_dictionaries({}, optional=fields)


def _container() -> st.SearchStrategy[Json]:
    return st.builds(
        lambda limits, asked: {
            "name": "main",
            "image": "none",
            "env": [{"name": "A", "value": asked}],
            "resources": {"limits": limits},
        },
        DEVICES,
        TEXTS,
    )


@st.composite
def tasks(draw: st.DrawFn) -> Json:
    cards = some(
        cards=st.integers(-1, 65),
        tiles=st.integers(1, 1024),
        millicores=st.integers(1, 64_000),
        memory=AMOUNTS | WHOLE | st.integers(-1, FOREVER),
        allow=st.lists(st.from_regex(r"card[0-9]{1,4}", fullmatch=True), max_size=3),
        sameNuma=st.booleans(),
    )
    container = some(
        command=st.lists(TEXTS, max_size=3),
        env=st.lists(st.builds(lambda name, value: {"name": name, "value": value}, WORDS, TEXTS), max_size=3),
        cpu=AMOUNTS,
        memory=AMOUNTS | st.integers(0, FOREVER),
        workingDir=WORDS.map("/{}".format),
    )
    failure = some(
        restart=st.sampled_from(["All", "Rank"]),
        retries=st.integers(0, 101),
        fatalExitCodes=st.lists(st.integers(1, 255), max_size=33),
    )
    spec = some(
        replicas=st.integers(0, 4097),
        cards=cards,
        network=some(requiredLevel=WORDS, exclusiveLevel=WORDS, exclusive=st.booleans()),
        rendezvous=st.sampled_from(["None", "Env"]),
        onFailure=failure,
        deadlineSeconds=st.integers(1, 31_536_000),
        ttlSeconds=st.integers(0, 31_536_000),
        graceSeconds=st.integers(0, 86_400),
        suspend=st.booleans(),
        queue=WORDS,
        nodeSelector=st.dictionaries(WORDS, WORDS, max_size=3),
        tolerations=st.lists(some(key=WORDS, tolerationSeconds=st.integers(0, 31_536_000)), max_size=3),
    )
    made = {**draw(spec), "container": {"image": draw(WORDS) or "none", **draw(container)}}
    return {
        "apiVersion": "accelet.dev/v1alpha1",
        "kind": "GPUTask",
        "metadata": draw(metadata()),
        "spec": made,
    }


@st.composite
def slice_requests(draw: st.DrawFn) -> Json:
    owner = st.builds(
        lambda kind, name, index: {
            "apiVersion": "batch/v1",
            "kind": kind,
            "name": name,
            "uid": "u",
            "job": name,
            "index": index,
        },
        st.sampled_from(["Job", "JobSet", "Pod"]),
        TEXTS.map(lambda text: text[:253]),
        st.integers(0, 1000),
    )
    number = st.integers(0, 10**18).map(str)
    spec = some(
        owner=owner,
        machineType=WORDS,
        sliceClass=WORDS,
        tier=TEXTS.map(lambda text: text[:280]),
        zone=WORDS,
        nodeLabels=st.dictionaries(WORDS, WORDS, max_size=3),
    )
    made = {
        **draw(spec),
        "accelerator": draw(WORDS | st.sampled_from(["tpu-v4-podslice", "tpu-v5-lite-podslice", "tpu7x"])),
        "topology": draw(st.lists(number, min_size=1, max_size=4).map("x".join)),
        "chipsPerPod": draw(st.integers(0, 9)),
        "set": {"name": draw(WORDS), "size": draw(st.integers(1, 1000))},
    }
    notes = draw(metadata())
    return {"apiVersion": "accelet.dev/v1alpha1", "kind": "SliceRequest", "metadata": notes, "spec": made}


def _deep() -> st.SearchStrategy[Json]:
    """Opaque parameters: whatever is JSON and at most 10 KiB long."""

    def nested(depth: int) -> Json:
        value: Json = {}
        for _ in range(depth):
            value = {"a": value}
        return value

    kind = {"apiVersion": "gpu.accelet.dev/v1alpha1", "kind": "GpuConfig"}
    return st.integers(0, 900).map(nested) | st.dictionaries(
        st.sampled_from(["sharing", "tiles", "mask"]), TEXTS | st.integers(0, FOREVER) | st.none()
    ).map(lambda fields: {**kind, **fields})


@st.composite
def claims(draw: st.DrawFn) -> Json:
    selector = {"cel": {"expression": draw(st.sampled_from(["true", "device.driver == 'x'"]))}}
    exactly = {
        "deviceClassName": "cards",
        "selectors": [selector],
        **draw(some(count=st.integers(-1, 33), allocationMode=st.sampled_from(["ExactCount", "All"]))),
    }
    opaque = {"driver": draw(st.sampled_from(DRIVERS)), "parameters": draw(_deep())}
    devices = {"requests": [{"name": "card", "exactly": exactly}], "config": [{"opaque": opaque}]}
    named = draw(metadata())
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": named,
        "spec": {"devices": devices},
        "status": draw(_allocations(opaque["driver"], opaque)),
    }


def _allocations(driver: Any, opaque: Json) -> st.SearchStrategy[Json]:
    """As whoever may write a claim's status allocates devices that there are not."""
    result = st.builds(
        lambda pool, device: {"request": "card", "driver": driver, "pool": pool, "device": device},
        st.from_regex(r"[a-z]{1,20}(/[a-z]{1,20})?", fullmatch=True),
        st.from_regex(r"[a-z]([a-z0-9-]{0,60}[a-z0-9])?", fullmatch=True),
    )
    devices = st.lists(result, min_size=1, max_size=32).map(
        lambda results: {"results": results, "config": [{"source": "FromClaim", "opaque": opaque}]}
    )
    user = st.builds(lambda name: {"resource": "pods", "name": name, "uid": name}, st.sampled_from("ab"))
    users = st.lists(user, max_size=2, unique_by=lambda one: str(one["name"]))
    return st.builds(
        lambda given, reserved: {"allocation": {"devices": given}, "reservedFor": reserved}, devices, users
    )


@st.composite
def job_sets(draw: st.DrawFn) -> Json:
    """The kind of a stranger, whose schema allows anything here."""
    spec = draw(
        some(
            parallelism=st.integers(-(2**63), FOREVER),
            completions=st.integers(-(2**63), FOREVER),
            completionMode=st.sampled_from(["Indexed", ""]) | TEXTS,
            template=st.builds(lambda one: {"spec": {"containers": [one]}}, _container())
            | BRACKETS
            | _deep(),
        )
    )
    job = {"name": draw(TEXTS), "replicas": draw(st.integers(-1, FOREVER)), "template": {"spec": spec}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": draw(metadata()),
        "spec": draw(some(suspend=st.booleans() | TEXTS)) | {"replicatedJobs": [job]},
    }


@st.composite
def stateful_sets(draw: st.DrawFn) -> Json:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": draw(NOTES)},
        "spec": {"containers": [draw(_container())]},
    }
    spec = {"replicas": 0, "serviceName": draw(WORDS), "selector": {"matchLabels": {"a": "b"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": draw(metadata()),
        "spec": {**spec, "template": template},
    }


@st.composite
def tasks_pods(draw: st.DrawFn) -> Json:
    """Pods that say that they are ranks of a task, and use claims."""
    notes = st.fixed_dictionaries({RANK: TEXTS, "batch.kubernetes.io/job-completion-index": TEXTS})
    named = draw(metadata(notes))
    named["labels"] |= {TASK: "t", TASK_UID: draw(st.sampled_from(["u", "0" * 63]))}
    container = draw(_container())
    container["resources"] |= {"claims": [{"name": "c"}]}
    claim = {
        "name": "c",
        **draw(st.sampled_from([{"resourceClaimName": "x"}, {"resourceClaimTemplateName": "y"}])),
    }
    spec = {"containers": [container], "resourceClaims": [claim], "schedulingGates": [{"name": "x.y/z"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


@st.composite
def services(draw: st.DrawFn) -> Json:
    named = draw(metadata())
    named["labels"] |= {TASK: "t"}
    spec = {"clusterIP": "None", "ports": [{"port": draw(st.integers(1, 65535))}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": spec}


@st.composite
def leases(draw: st.DrawFn) -> Json:
    spec = some(
        holderIdentity=TEXTS.filter(bool),
        leaseDurationSeconds=st.integers(1, 2**31 - 1),
        leaseTransitions=st.integers(0, 2**31 - 1),
        renewTime=MOMENTS,
        acquireTime=MOMENTS,
    )
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": draw(metadata()),
        "spec": draw(spec),
    }


@st.composite
def events(draw: st.DrawFn, namespace: str) -> Json:
    """Of core, which may be of any time and about anything in their namespace."""
    fields = some(
        reason=st.sampled_from(["Waiting", "FailedCreate", ""]) | TEXTS,
        message=TEXTS,
        lastTimestamp=MOMENTS.map(lambda moment: f"{moment[:19]}Z"),
        count=st.integers(-(2**31), 2**31 - 1),
    )
    named = draw(metadata())
    about = {"kind": "Pod", "name": draw(TEXTS), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Event", "metadata": named, "involvedObject": about, **draw(fields)}


@st.composite
def resource_slices(draw: st.DrawFn) -> Json:
    """As whoever has taken a node over publishes them for our driver."""
    value = st.builds(lambda number: {"int": number}, st.integers(-(2**63), FOREVER)) | st.builds(
        lambda text: {"string": text}, WORDS
    )
    names = st.sampled_from(["card", "tile", "tiles", "model", "pciAddress", "numaNode", "x"])
    device = some(
        attributes=st.dictionaries(names, value, max_size=4),
        capacity=st.dictionaries(
            st.sampled_from(["memory", "millicores"]), AMOUNTS.map(lambda text: {"value": text}), max_size=2
        ),
    )
    devices = [{"name": f"d{index}", **one} for index, one in enumerate(draw(st.lists(device, max_size=4)))]
    pool = {"name": "n", "generation": draw(st.integers(0, FOREVER)), "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": draw(metadata()),
        "spec": {"driver": DRIVERS[0], "nodeName": "n", "pool": pool, "devices": devices},
    }
