"""Whatever was seen is judged: bounded, with a cure for what is wrong, nothing that could be obeyed."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard, render_node_cards
from accelet.doctor.bundle import bundle_files
from accelet.doctor.cluster.judgement import judge_cluster
from accelet.doctor.cluster.network import judge_network
from accelet.doctor.cluster.nodes import minor_of
from accelet.doctor.cluster.objects import read_pod, read_policy
from accelet.doctor.cluster.policies import (
    CARDS,
    GATE,
    PROVISIONER,
    SCHEDULER,
    SHARING,
    judge_policies,
)
from accelet.doctor.cluster.processes import judge_processes
from accelet.doctor.cluster.seen import (
    AccountRight,
    AgentConfigSeen,
    BindingSeen,
    ClusterSeen,
    LeaseSeen,
    NodeMachine,
    PodSeen,
    PolicySeen,
    ProcessSeen,
)
from accelet.doctor.examined import Examined, sum_up
from accelet.doctor.findings import LONGEST_QUOTE, MOST_FINDINGS, Finding, Verdict
from accelet.doctor.node.agent import judge_agent
from accelet.doctor.node.agentport import parse_metrics, parse_readiness
from accelet.doctor.node.judgement import follow_causes, judge_node
from accelet.doctor.node.kubelet import judge_kubelet
from accelet.doctor.node.seen import (
    AgentSeen,
    ConfigurationSeen,
    FolderSeen,
    NodeSeen,
    ReadinessLine,
    RecordsSeen,
    ResourceSeen,
    RightSeen,
    ServerSeen,
    SocketSeen,
)
from accelet.doctor.rights import SCHEDULER as SCHEDULER_RIGHTS
from accelet.kube.errors import MalformedObjectError
from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.pods import Container, Pod
from accelet.kube.selection import Taint
from accelet.scheduler.cluster.topology import PRESETS

DEPLOY = Path(__file__).parents[3] / "deploy"

TEXT = st.text(max_size=600)
NAME = st.sampled_from(["node-1", "accelet-agent", "accelet-plans", "accelet-scheduler", "x"])
RESOURCE = st.sampled_from(["gpu.intel.com/i915", "gpu.intel.com/xe", "a.b/c"])
PATH = st.sampled_from(["/k/device-plugins", "/k/pod-resources"])
SOCKETS = st.builds(
    SocketSeen,
    PATH.map(lambda folder: f"{folder}/kubelet.sock"),
    st.sampled_from(["answers", "absent", "silent", "closed", "no socket"]),
)
IDS = st.frozensets(st.sampled_from("abcd"))
RECORDS = st.builds(RecordsSeen, st.dictionaries(RESOURCE, IDS), TEXT)
RIGHT = st.one_of(st.none(), st.booleans())
SECONDS = st.one_of(st.none(), st.floats(-1e6, 1e6))

NODES = st.builds(
    NodeSeen,
    name=NAME,
    folders=st.tuples(
        st.builds(FolderSeen, PATH, st.sampled_from(["there", "absent", "closed", "dead"])),
    ),
    kubelet_socket=SOCKETS,
    other_sockets=st.lists(SOCKETS).map(tuple),
    checkpoint=RECORDS,
    pod_resources=RECORDS,
    configuration=st.builds(
        ConfigurationSeen,
        NAME,
        st.lists(TEXT, max_size=3).map(tuple),
        st.lists(
            st.builds(ResourceSeen, RESOURCE, st.booleans(), IDS, st.dictionaries(TEXT, TEXT), TEXT)
        ).map(tuple),
    ),
    agent=st.builds(
        AgentSeen,
        NAME,
        st.booleans(),
        st.lists(st.builds(ReadinessLine, TEXT, st.booleans(), TEXT)).map(tuple),
        st.dictionaries(
            st.tuples(TEXT, st.sampled_from(["stream-ended", "audit"])), st.integers(0, 99)
        ),
        RIGHT,
        TEXT,
    ),
    server=st.builds(
        ServerSeen,
        st.booleans(),
        TEXT,
        SECONDS,
        st.lists(st.builds(RightSeen, NAME, NAME, RIGHT)).map(tuple),
    ),
)  # fmt: skip

AMOUNTS = st.dictionaries(RESOURCE, st.integers(0, 9))
COMPONENT = st.sampled_from(["agent", "scheduler", "provisioner", ""])
PROCESSES = st.builds(
    ProcessSeen,
    st.sampled_from(["DaemonSet", "Deployment"]), NAME, NAME, COMPONENT,
    st.integers(0, 3), st.integers(0, 3), NAME, NAME,
)  # fmt: skip
PODS = st.builds(
    Pod,
    NAME,
    NAME,
    created_s=st.floats(0, 1e9),
    node_name=st.one_of(st.none(), NAME),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    labels=st.sampled_from(
        [{}, {"app.kubernetes.io/part-of": "accelet", "app.kubernetes.io/component": "agent"}]
    ),
    gates=st.sampled_from([(), ("accelet.dev/cards",), ("other",)]),
    node_selector=st.sampled_from([{}, {"a": "b"}]),
    containers=st.lists(st.builds(Container, NAME, AMOUNTS), max_size=2).map(tuple),
)
SEEN_PODS = st.builds(
    PodSeen,
    PODS,
    st.sampled_from(["", "UnexpectedAdmissionError"]),
    TEXT,
    TEXT,
    st.lists(TEXT, max_size=2).map(tuple),
    st.lists(st.sampled_from(["x/intel-gpu-plugin:1", "y"]), max_size=2).map(tuple),
)
MACHINES = st.builds(
    NodeMachine,
    st.builds(
        Node,
        NAME,
        unschedulable=st.booleans(),
        taints=st.lists(st.builds(Taint, NAME, st.just("NoSchedule"), TEXT), max_size=2).map(tuple),
        conditions=st.lists(
            st.builds(Condition, st.just("Ready"), st.sampled_from(["True", "Unknown"])), max_size=1
        ).map(tuple),
        capacity=AMOUNTS,
        allocatable=AMOUNTS,
    ),
    st.one_of(TEXT, st.sampled_from(["v1.36.0", "v1.20.0", "v1.37.1"])),
    SECONDS,
)
KINDS = st.sampled_from(["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"])
BOUND = KINDS.map(lambda kind: f"{kind}Binding")
CLUSTERS = st.builds(
    ClusterSeen,
    now_s=st.floats(0, 1e9),
    version=st.one_of(TEXT, st.just("v1.36.0")),
    ahead_s=SECONDS,
    machines=st.lists(MACHINES, max_size=4).map(tuple),
    pods=st.lists(SEEN_PODS, max_size=30).map(tuple),
    processes=st.lists(PROCESSES, max_size=3).map(tuple),
    configs=st.lists(
        st.builds(
            AgentConfigSeen,
            PROCESSES,
            st.lists(TEXT, max_size=2).map(tuple),
            st.lists(RESOURCE, max_size=2).map(tuple),
            st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    policies=st.lists(st.builds(PolicySeen, KINDS, NAME, st.booleans()), max_size=3).map(tuple),
    bindings=st.lists(st.builds(BindingSeen, BOUND, NAME, NAME, st.booleans()), max_size=3).map(tuple),
    leases=st.dictionaries(
        COMPONENT, st.one_of(st.none(), st.builds(LeaseSeen, TEXT, SECONDS, st.integers(0, 60)))
    ),
    rights=st.lists(
        st.builds(AccountRight, PROCESSES, st.sampled_from(SCHEDULER_RIGHTS), NAME, RIGHT), max_size=30
    ).map(tuple),
    waiting=st.dictionaries(st.just("node-1/x"), TEXT),
    label_sets=st.sampled_from([(), PRESETS["aws"].label_sets]),
    unseen=st.dictionaries(st.sampled_from(["daemonsets", "pods"]), TEXT),
)
SLOWLY = settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)


def assert_fit_to_be_shown(verdicts: Iterable[Verdict]) -> None:
    for verdict in verdicts:
        assert len(verdict.findings) <= 3 * (MOST_FINDINGS + 1)
        for finding in verdict.findings:
            assert finding.cure or finding.level != "wrong"
            assert len(finding.quote) <= LONGEST_QUOTE + len("...")
            for text in (finding.about, finding.reason, finding.cure, finding.quote, verdict.fine):
                assert text.isprintable()
                assert text.isascii()


@SLOWLY
@given(NODES)
def test_every_node_is_judged(seen: NodeSeen) -> None:
    assert_fit_to_be_shown(judge_node(seen))


@SLOWLY
@given(NODES)
def test_what_follows_from_another_fault_is_told_and_does_not_count(seen: NodeSeen) -> None:
    """Whatever is not ready: it is a fault still, or a note that names a check which found one."""
    before = (*judge_kubelet(seen), *judge_agent(seen))
    after = follow_causes(before)
    wrong = {one.check for one in after if one.level == "wrong"}
    for one, other in zip(before, after, strict=True):
        assert [each.about for each in one.findings] == [each.about for each in other.findings]
        for was, now in zip(one.findings, other.findings, strict=True):
            if was != now:
                assert (was.level, now.level, other.check) == ("wrong", "note", "agent")
                assert now.cure.split()[2] in wrong - {"agent"}
    assert any(one.level == "wrong" for one in after) == any(one.level == "wrong" for one in before)


def test_one_cause_counts_once() -> None:
    ended = "the kubelet is not running: nobody listens at /k/device-plugins/kubelet.sock"
    seen = NodeSeen(
        "n",
        (FolderSeen("/k/device-plugins", "there"),),
        SocketSeen("/k/device-plugins/kubelet.sock", "silent"),
        (),
        RecordsSeen(),
        RecordsSeen(),
        ConfigurationSeen(
            "c",
            resources=(ResourceSeen("a/b", unhealthy=dict.fromkeys(("card0-0", "card0-1"), "too hot")),),
        ),
        AgentSeen(
            ":9400",
            lines=(
                ReadinessLine("a/b", is_ok=False, detail=f"{ended} for 3 s"),
                ReadinessLine("a/c", is_ok=False, detail=f"{ended} for 4 s"),
                ReadinessLine("a/d", is_ok=False, detail="something else"),
            ),
        ),
        ServerSeen(
            is_wanted=True,
            rights=tuple(RightSeen(f"{verb} pods", "assignments", False) for verb in ("get", "watch")),
        ),
    )
    counted = [
        (verdict.check, one.about)
        for verdict in judge_node(seen)
        for one in verdict.findings
        if one.level == "wrong"
    ]
    assert counted == [
        ("kubelet-socket", "/k/device-plugins/kubelet.sock"),
        ("agent", "a/d"),
        ("devices", "a/b card0-0, card0-1"),
        ("rights", "get pods, watch pods"),
    ]


@SLOWLY
@given(CLUSTERS)
def test_every_cluster_is_judged(seen: ClusterSeen) -> None:
    assert_fit_to_be_shown(judge_cluster(seen))


@SLOWLY
@given(NODES, CLUSTERS)
def test_no_bundle_depends_on_a_text_of_others(node: NodeSeen, cluster: ClusterSeen) -> None:
    """What only says why something was not seen, or what others said, changes no byte of it."""

    def bundle(cluster: ClusterSeen) -> object:
        examined = [
            Examined("node", node.name, judge_node(node)),
            Examined("cluster", "", judge_cluster(cluster)),
        ]
        return bundle_files({}, sum_up(examined), node, cluster)

    silent = replace(
        cluster,
        pods=tuple(replace(one, message="", unscheduled="") for one in cluster.pods),
        waiting={},
        unseen=dict.fromkeys(cluster.unseen, ""),
        configs=tuple(replace(one, mistakes=("",) * len(one.mistakes)) for one in cluster.configs),
    )
    assert bundle(cluster) == bundle(silent)


def _publishing(*cards: NodeCard) -> NodeMachine:
    return NodeMachine(Node("n", annotations={NODE_CARDS_ANNOTATION: render_node_cards(cards)}))


@pytest.mark.parametrize(
    ("image", "container", "serves", "is_found"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "nvidia-device-plugin", "nvidia.com/gpu", True),
        ("harbor.local:5000/nvidia/k8s-device-plugin@sha256:0a", "main", "nvidia.com/gpu", True),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "gpu-feature-discovery", "nvidia.com/gpu", False),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "nvidia-device-plugin", "gpu.intel.com/i915", False),
        ("rocm/k8s-device-plugin:latest", "amdgpu-dp-cntr", "amd.com/gpu", True),
        ("docker.io/rocm/k8s-device-plugin:labeller-latest", "amdgpu-lbl-cntr", "amd.com/gpu", False),
        ("rocm/k8s-device-plugin:latest", "amdgpu-dp-cntr", "nvidia.com/gpu", False),
    ],
)
def test_vendors_plugins_beside_an_agent_are_found(
    image: str, container: str, serves: str, is_found: bool
) -> None:
    def on_node(name: str, image: str, container: str, labels: dict[str, str]) -> PodSeen:
        body = {
            "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
            "spec": {"nodeName": "node-1", "containers": [{"name": container, "image": image}]},
            "status": {"phase": "Running"},
        }
        return read_pod(msgspec.Raw(json.dumps(body).encode()))

    ours = {"app.kubernetes.io/part-of": "accelet", "app.kubernetes.io/component": "agent"}
    agent = ProcessSeen("DaemonSet", "kube-system", "accelet-agent", "agent", 1, 1)
    seen = ClusterSeen(
        0.0,
        pods=(on_node("agent", "accelet:1", "agent", ours), on_node("other", image, container, {})),
        configs=(AgentConfigSeen(agent, resources=(serves,)),),
    )
    (verdict,) = (one for one in judge_processes(seen) if one.check == "one-plugin")
    assert [one.about for one in verdict.findings] == ["node-1"] * is_found
    if "nvidia/" in image and is_found:
        assert "nvidia.com/gpu.deploy.device-plugin=false" in verdict.findings[0].cure


def test_cards_that_the_policies_do_not_count_are_found() -> None:
    both = tuple(
        PolicySeen(kind, name, fails_closed=True, cards=("gpu.intel.com/i915", "gpu.intel.com/xe"))
        for kind, name in (
            ("MutatingAdmissionPolicy", GATE),
            ("ValidatingAdmissionPolicy", "accelet-requests"),
        )
    )

    def found(*resources: str) -> list[tuple[str, str]]:
        cards = [NodeCard(UnitId(f"c{number}"), name) for number, name in enumerate(resources)]
        seen = ClusterSeen(0.0, machines=(_publishing(*cards),), policies=both)
        (verdict,) = judge_policies(seen)
        return [(one.about, one.reason) for one in verdict.findings if "card" in one.reason]

    assert found("gpu.intel.com/i915", "gpu.intel.com/xe") == []
    assert found("gpu.intel.com/i915") == []
    assert found() == []
    assert found("gpu.intel.com/xe") == [
        (GATE, "pods that name no card are given gpu.intel.com/i915, of which no node publishes any")
    ]
    published = "nodes publish cards as gpu.intel.com/flex"
    assert found("gpu.intel.com/flex", "gpu.intel.com/i915") == [
        (one.name, f"{published}, which it does not count: pods get them without a gate") for one in both
    ]


def test_lists_of_cards_are_read_from_the_shipped_policies() -> None:
    for name in ("gate", "requests"):
        policy, _ = yaml.safe_load_all((DEPLOY / "policies" / f"{name}.yaml").read_text())
        raw = msgspec.Raw(msgspec.json.encode(policy))
        assert read_policy(raw, policy["kind"]).cards == ("gpu.intel.com/i915", "gpu.intel.com/xe")
        for expression in ("variables.cards", '["no name"]', "[" * 100_000, '["\\ud800"]', "\ud800"):
            policy["spec"]["variables"][0]["expression"] = expression
            raw = msgspec.Raw(json.dumps(policy).encode())
            try:
                seen = read_policy(raw, policy["kind"]).cards
            except MalformedObjectError:
                continue
            assert seen == ()


def test_policies_that_are_expected_are_shipped() -> None:
    shipped = {
        (each["kind"], each["metadata"]["name"])
        for path in DEPLOY.rglob("*.yaml")
        if "chart" not in path.parts
        for each in yaml.safe_load_all(path.read_text())
        if isinstance(each, dict) and "metadata" in each
    }
    for name in (*SCHEDULER, *SHARING, *CARDS, *PROVISIONER):
        assert ("ValidatingAdmissionPolicy", name) in shipped
    assert ("MutatingAdmissionPolicy", GATE) in shipped


def test_where_nodes_are_is_judged_by_the_schedulers_labels() -> None:
    aws = {f"topology.k8s.aws/network-node-layer-{number}": f"nn-{number}" for number in (1, 2, 3)}

    def told(*labels: dict[str, str], topology: str = "gke") -> tuple[str, str, str]:
        machines = tuple(NodeMachine(Node(f"n{number}", labels=each)) for number, each in enumerate(labels))
        verdict = judge_network(ClusterSeen(0.0, machines=machines, label_sets=PRESETS[topology].label_sets))
        (finding,) = verdict.findings or (Finding("note", "", ""),)
        return verdict.fine, finding.reason, finding.cure

    nothing = "no node has topology labels: gangs are placed by chance"
    assert told({}, {})[1] == nothing
    assert told({}, {"topology.k8s.aws/network-node-layer-1": "nn"})[1] == nothing
    assert told({}) == ("", "", "")
    fine, reason, cure = told(aws, aws, {})
    assert (fine, "topology: aws" in cure) == ("", True)
    assert reason.endswith("2 nodes have those of the topology aws")
    assert told(aws, {}, topology="aws")[:2] == ("1 of 2 nodes say where they are in the network", "")


@given(st.text())
def test_any_text_is_a_version_or_none(text: str) -> None:
    assert minor_of(text) is None or "1." in text


def test_versions_of_clouds_are_read() -> None:
    assert [minor_of(text) for text in ("v1.36.0", "v1.33.4-gke.120", "v1.30.1+k3s1", "1.29.0")] == [
        36, 33, 30, 29,
    ]  # fmt: skip


@given(st.text())
def test_any_answer_at_the_agents_port_is_read(text: str) -> None:
    list(parse_readiness(text))
    parse_metrics(text)


def test_what_the_agent_says_is_read() -> None:
    assert list(parse_readiness("[+] agent: serving\n[-] a/b: starting for 3 s\nnot ready\n")) == [
        ReadinessLine("agent", is_ok=True, detail="serving"),
        ReadinessLine("a/b", is_ok=False, detail="starting for 3 s"),
    ]
    text = (
        "# TYPE accelet_registration_ends_total counter\n"
        'accelet_registration_ends_total{resource="a/b",cause="audit"} 2.0\n'
        "# TYPE accelet_config_last_reload_successful gauge\n"
        "accelet_config_last_reload_successful 0.0\n"
    )
    assert parse_metrics(text) == ({("a/b", "audit"): 2}, False)


def notes_on(one: PodSeen, **seen: dict[str, str]) -> dict[str, str]:
    """What is noted of a pod that asks for a GPU which a node offers, by check: what others said."""
    node = NodeMachine(Node("node-1", allocatable={"a.b/c": 4}))
    verdicts = judge_cluster(ClusterSeen(now_s=1000, machines=(node,), pods=(one,), **seen))  # type: ignore[arg-type]
    return {v.check: finding.quote for v in verdicts for finding in v.findings if finding.level == "note"}


def test_a_pod_that_waits_long_is_a_note_with_the_schedulers_word() -> None:
    pod = Pod("ml", "train-0", created_s=100, containers=(Container("main", {"a.b/c": 1}),))
    one = PodSeen(pod, unscheduled="0/1 nodes are available")
    assert notes_on(one) == {"waiting": "0/1 nodes are available"}
    assert notes_on(one, waiting={"ml/train-0": "needs 4 nodes"}) == {"waiting": "needs 4 nodes"}
    assert notes_on(replace(one, pod=replace(pod, created_s=950))) == {}


def test_a_pod_that_its_kubelet_refused_is_a_note() -> None:
    pod = Pod("ml", "train-0", phase="Failed", node_name="node-1")
    assert notes_on(PodSeen(pod, "UnexpectedAdmissionError", "no devices")) == {"admission": "no devices"}
