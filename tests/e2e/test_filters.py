"""Where a single pod may be is judged as kube-scheduler 1.36's own filters judge it."""

import json
import random
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accelet.kube.nodes import Node, parse_node
from accelet.kube.podparser import parse_pod
from accelet.kube.selection import HOSTNAME
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import ROOT, Scheme
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.placement.gangproblems import problems_of
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.e2e.filter_draws import draw

CASES = 20_000
"""Pods that are drawn, each with nodes of its own."""

_EXACT = frozenset(
    (
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
    )
)
"""What these refuse is refused here, and nothing else is for their reasons."""

Json = dict[str, Any]


def _ask(binaries: Binaries, questions: Sequence[Json]) -> list[Sequence[Sequence[str]]]:
    """For each question, for each node the filters that refuse the pod there."""
    done = subprocess.run(
        [binaries.path("filters")],
        input="".join(f"{json.dumps(question)}\n" for question in questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if line.startswith("error")]
    assert not wrong, wrong[:3]
    return [json.loads(line) for line in lines]


def _open_nodes(question: Json) -> Mapping[str, bool]:
    """Whether the planner gives the pod each node, by name."""
    pods = [parse_pod(raw) for raw in (*question["bound"], question["pod"])]
    nodes: list[Node] = [parse_node(raw) for raw in question["nodes"]]
    cluster = Cluster(Scheme(), nodes, pods[:-1])
    gang = next(one for one in find_gangs(pods) if pods[-1] in one.pods)
    layout = cluster.layout
    problems = problems_of(gang, layout, cluster.room(), ROOT)
    free = np.max([problem.slots[0] for problem in problems], axis=0)
    return {node.name: bool(free[layout.leaf_of[node.name]]) for node in nodes}


def _lacks_a_key(pod: Json, node: Json) -> bool:
    """Whether a node lacks the label of a required spread or affinity term of the pod."""
    spec, labels = pod["spec"], node["metadata"]["labels"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = spec.get("affinity", {}).get("podAffinity", {}).get(required, [])
    spread = spec.get("topologySpreadConstraints", [])
    hard = [one for one in spread if one["whenUnsatisfiable"] == "DoNotSchedule"]
    return any(one["topologyKey"] not in labels for one in (*terms, *hard))


def _is_kept_apart(pod: Json, node: Json, bound: Sequence[Json]) -> bool:
    """Whether a member of the pod's own gang is on the node that hostname anti-affinity keeps it from."""
    if HOSTNAME not in node["metadata"]["labels"]:
        return False
    mine = parse_pod(pod)
    others = [parse_pod(raw) for raw in bound if raw["spec"]["nodeName"] == node["metadata"]["name"]]
    return any(
        any(term.selects(b.namespace, b.labels) for term in a.apart_from)
        for other in others
        if other.labels.get("job-name") == mine.labels.get("job-name") == "j" and other.namespace == "ml"
        for a, b in ((mine, other), (other, mine))
    )


def test_a_single_pod_may_be_where_kube_schedulers_filters_let_it(
    filter_binaries: Binaries, say: Progress
) -> None:
    source = random.Random(31)
    questions = [draw(source) for _ in range(CASES)]
    theirs = _ask(filter_binaries, questions)
    counts: Counter[str] = Counter()
    wrong: list[tuple[str, str, Sequence[str], Json]] = []
    for question, refusals in zip(questions, theirs, strict=True):
        ours = _open_nodes(question)
        for node, refused in zip(question["nodes"], refusals, strict=True):
            name = node["metadata"]["name"]
            counts.update(refused or ("none",))
            must_refuse = (
                bool(_EXACT & {*refused})
                or _lacks_a_key(question["pod"], node)
                or _is_kept_apart(question["pod"], node, question["bound"])
            )
            if ours[name] and must_refuse:
                wrong.append(("given here, refused there", name, refused, question))
            if not ours[name] and not refused:
                wrong.append(("refused here, given there", name, refused, question))
    say(f"\nfilters: {dict(counts)} of {CASES:,} pods, {len(wrong)} nodes judged otherwise")
    assert not wrong, [(one[:3], json.dumps(one[3])) for one in wrong[:2]]
    assert min(counts[name] for name in (*(_EXACT - {"NodeName"}), "none")) > CASES / 100
