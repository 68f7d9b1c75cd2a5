import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import NodeCard
from accelet.cli import main
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.record import Placement, Record
from tests.fakes.manifests import Raw, raw_container, raw_node, raw_pod
from tests.fakes.volumes import in_zone, raw_claim, raw_volume, using

_I915 = "gpu.intel.com/i915"
_GATE = "gke.io/topology-aware-auto-train"


def _pod(name: str, gpus: object = 8, on: str | None = None, labels: Mapping[str, str] | None = None) -> Raw:
    asking = raw_container(limits={"nvidia.com/gpu": gpus})
    return raw_pod(name, on=on, gates=() if on else (_GATE,), labels=labels or {}, containers=[asking])


_NODES = [raw_node("n0", "b0/s0/h0"), raw_node("n1", "b0/s0/h1"), raw_node("n2", "b1/s1/h2")]
_LABELS = {"job-name": "train"}
_JOB = {
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "ml"},
    "spec": {"parallelism": 3, "completions": 3},
}


def _write(folder: Path, name: str, content: object) -> str:
    file = folder / f"{name}.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def _run(folder: Path, nodes: object, pods: object, jobs: object = None, *flags: str) -> Result:
    arguments = ["plan", "--nodes", _write(folder, "nodes", nodes), "--pods", _write(folder, "pods", pods)]
    if jobs is not None:
        arguments += ["--jobs", _write(folder, "jobs", jobs)]
    return CliRunner().invoke(main, [*arguments, *flags], catch_exceptions=False)


def _items(*items: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def test_json_says_who_sits_where(tmp_path: Path) -> None:
    pods = _items(_pod("a", on="n0"), *(_pod(f"train-{rank}", labels=_LABELS) for rank in range(2)))
    result = _run(tmp_path, _items(*_NODES), pods, None, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "jobs": [
            {
                "name": "ml/train",
                "placements": [
                    {"pod": "ml/train-0", "node": "n1"},
                    {"pod": "ml/train-1", "node": "n2"},
                ],
                "distance": 1_000_000,
                "lower_bound": 1_000_000,
                "optimal": True,
                "reason": None,
            }
        ]
    }


def test_a_job_that_must_wait_is_an_answer_and_no_failure(tmp_path: Path) -> None:
    pods = _items(*(_pod(f"train-{rank}", labels=_LABELS) for rank in range(4)))
    result = _run(tmp_path, _items(*_NODES), pods, None, "--json")
    assert result.exit_code == 0
    (job,) = json.loads(result.stdout)["jobs"]
    assert (job["placements"], job["distance"], job["optimal"]) == (None, None, False)
    assert job["reason"] == "needs 4 nodes, the cluster has 3"


def test_volumes_say_where_pods_can_be(tmp_path: Path) -> None:
    zoned = [
        raw_node(f"n{n}", f"b0/s0/h{n}", labels={"topology.kubernetes.io/zone": "ab"[n]}) for n in range(2)
    ]
    pod = _pod("train-0", labels=_LABELS)
    pod["spec"] |= using("data")
    claim = {"kind": "PersistentVolumeClaim", **raw_claim(volume="v")}
    claim["metadata"]["namespace"] = "ml"
    volume = {"kind": "PersistentVolume", **raw_volume("v", terms=[in_zone("b")])}
    storage = {"kind": "StorageClass", "metadata": {"name": "late"}}

    def run(*listed: object) -> Result:
        file = _write(tmp_path, "volumes", _items(*listed))
        return _run(tmp_path, _items(*zoned), _items(pod), None, "--json", "--volumes", file)

    (job,) = json.loads(run(claim, volume, storage).stdout)["jobs"]
    assert job["placements"] == [{"pod": "ml/train-0", "node": "n1"}]
    (job,) = json.loads(run(volume, storage).stdout)["jobs"]
    assert job["reason"] == "pod train-0 waits for its volume claim data, which is not there"
    refused = run(claim, {"kind": "Secret", "metadata": {"name": "s"}})
    assert (refused.exit_code, "s is a Secret" in refused.stderr) == (2, True)


def test_the_drawing_shows_the_network_and_the_ranks(tmp_path: Path) -> None:
    pods = _items(*(_pod(f"train-{rank}", 1, labels=_LABELS) for rank in range(9)), _pod("big", 99))
    result = _run(tmp_path, _items(*_NODES), pods)
    assert result.exit_code == 0
    for text in (
        "ml/train 9 pods on 2 nodes, distance 100, optimal",
        "block b0",
        "subblock s0",
        "host h1",
        "ranks 0-7  train-0 … train-7",
        "rank 8  train-8",
        "waiting: needs 1 node, the cluster has 0",
    ):
        assert text in result.stdout


def test_nothing_to_plan_is_said(tmp_path: Path) -> None:
    assert "nothing to plan" in _run(tmp_path, _items(*_NODES), _items(_pod("a", on="n0"))).stdout


def test_without_jobs_the_gated_pods_are_the_gang_and_bound_ones_only_take_room(tmp_path: Path) -> None:
    pods = _items(_pod("train-0", on="n2", labels=_LABELS), _pod("train-1", labels=_LABELS))
    alone = json.loads(_run(tmp_path, _items(*_NODES), pods, None, "--json").stdout)["jobs"][0]
    assert (alone["placements"][0]["node"], alone["distance"]) == ("n0", 0)


def test_with_jobs_a_gang_is_planned_when_complete_and_near_its_bound_pods(tmp_path: Path) -> None:
    bound, gated = _pod("train-0", on="n1", labels=_LABELS), _pod("train-1", labels=_LABELS)
    some = _run(tmp_path, _items(*_NODES), _items(bound, gated), _items(_JOB), "--json")
    assert json.loads(some.stdout)["jobs"][0]["reason"] == "waits for 1 of its 3 pods to be created"
    whole = _items(bound, gated, _pod("train-2", labels=_LABELS))
    job = json.loads(_run(tmp_path, _items(*_NODES), whole, _items(_JOB), "--json").stdout)["jobs"][0]
    assert {place["node"] for place in job["placements"]} == {"n0", "n2"}


def test_another_gate_prefix_may_be_ours(tmp_path: Path) -> None:
    result = _run(
        tmp_path, _items(*_NODES), _items(_pod("a")), None, "--json", "--gate-prefix", "example.com/"
    )
    assert json.loads(result.stdout) == {"jobs": []}


def test_pods_without_labels_and_lists_without_kinds_are_read(tmp_path: Path) -> None:
    pods = {"items": [{key: value for key, value in _pod("a").items() if key in ("metadata", "spec")}]}
    result = _run(tmp_path, {"kind": "NodeList", "items": _NODES}, pods, None, "--json")
    assert json.loads(result.stdout)["jobs"][0]["name"] == "ml/train"


@pytest.mark.parametrize(
    ("nodes", "pods", "jobs", "sentence"),
    [
        ("{", _items(), None, "nodes.json: not a Kubernetes list in JSON"),
        ("[]", _items(), None, "nodes.json: not a Kubernetes list in JSON"),
        ("{}", _items(), None, 'nodes.json: there is no list of objects under "items"'),
        ({"items": 3}, _items(), None, 'nodes.json: there is no list of objects under "items"'),
        (_items("n0"), _items(), None, "nodes.json: items[0] is not an object"),
        (_items(_pod("a")), _items(), None, "nodes.json: items[0] (a) is a Pod, not a Node"),
        (_items(), _items(_NODES[0]), None, "pods.json: items[0] (n0) is a Node, not a Pod"),
        (
            _items(raw_node("n0", "b/s/h", gpus="8 Gi")),
            _items(),
            None,
            'nodes.json: items[0]: Node n0: status.allocatable[nvidia.com/gpu]: "8 Gi" is no quantity',
        ),
        (
            _items(),
            _items(_pod("a", "1mi")),
            None,
            'pods.json: items[0]: Pod ml/a: spec.containers[0].resources.limits[nvidia.com/gpu]: "1mi" is no',
        ),
        (_items(), _items({"kind": "Pod", "metadata": {"name": "a"}}), None, "items[0]: Pod a: "),
        (_items(_NODES[0], _NODES[0]), _items(), None, "nodes.json: Node n0 is there twice"),
        (_items(), _items(_pod("a"), _pod("a")), None, "pods.json: Pod ml/a is there twice"),
        (_items(), _items(), _items(_NODES[0]), "jobs.json: items[0]: Node n0: spec: "),
    ],
)
def test_input_that_cannot_be_read_is_named_and_exits_with_2(
    tmp_path: Path, nodes: object, pods: object, jobs: object, sentence: str
) -> None:
    result = _run(tmp_path, nodes, pods, jobs, "--json")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there_exits_with_2() -> None:
    result = CliRunner().invoke(main, ["plan", "--nodes", "/nowhere", "--pods", "/nowhere"])
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_the_levels_of_the_network_come_from_the_schedulers_settings(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nlevels: [{name: rack, weight: 7, labels: [rack]}]")
    nodes = [
        {**made, "metadata": {"name": f"n{i}", "labels": {"rack": f"r{i}"}}} for i, made in enumerate(_NODES)
    ]
    pods = _items(*(_pod(f"train-{rank}", labels=_LABELS) for rank in range(3)))
    result = _run(tmp_path, _items(*nodes), pods, None, "--json", "--config", str(config))
    assert json.loads(result.stdout)["jobs"][0]["distance"] == 14
    config.write_text("version: v2")
    wrong = _run(tmp_path, _items(*nodes), pods, None, "--config", str(config))
    assert (wrong.exit_code, "must be one of v1" in wrong.stderr) == (2, True)


def _cards_node(*numbers: int) -> Raw:
    cards = [
        NodeCard(UnitId(f"0000-0{number}-00.0"), _I915, card=f"card{number}", tiles=2, shares=4)
        for number in numbers
    ]
    return raw_node("n0", "b0/s0/h0", cards=cards)


def _tiles_pod(name: str, tiles: int) -> Raw:
    asking = raw_container(limits={_I915: 1, "gpu.intel.com/tiles": tiles})
    return raw_pod(name, gates=(_GATE,), labels=_LABELS, containers=[asking])


def test_the_cards_and_tiles_chosen_are_shown_where_there_are_any(tmp_path: Path) -> None:
    pods = _items(_tiles_pod("train-0", 2), _tiles_pod("train-1", 1), _pod("train-2", labels=_LABELS))
    result = _run(tmp_path, _items(_cards_node(0, 1)), pods, None, "--json")
    whole, part, none = json.loads(result.stdout)["jobs"][0]["placements"]
    assert "assignment" not in none
    taken = {whole["assignment"]["main"], part["assignment"]["main"]}
    assert taken in (
        {"0000-00-00.0 tiles 0 and 1", "0000-01-00.0 tile 0"},
        {"0000-01-00.0 tiles 0 and 1", "0000-00-00.0 tile 0"},
    )
    drawn = _run(tmp_path, _items(_cards_node(0, 1)), pods).stdout
    assert f"main: {whole['assignment']['main']}" in drawn


def test_pods_with_cards_have_a_line_each_however_many_they_are(tmp_path: Path) -> None:
    pods = _items(*(_tiles_pod(f"train-{rank}", 1) for rank in range(8)))
    drawn = _run(tmp_path, _items(_cards_node(0, 1, 2, 3)), pods).stdout
    assert drawn.count("main: 0000-0") == 8
    assert "rank 7  train-7" in drawn


def test_which_cards_are_taken_and_what_counts_them_is_said_by_the_settings(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    pods = _items(_tiles_pod("train-0", 1), _tiles_pod("train-1", 1))
    cards = {}
    for policy in ("packed", "balanced"):
        config.write_text(f"version: v1\ncards: {{policy: {policy}}}")
        result = _run(tmp_path, _items(_cards_node(0, 1)), pods, None, "--json", "--config", str(config))
        placements = json.loads(result.stdout)["jobs"][0]["placements"]
        cards[policy] = len({place["assignment"]["main"].split()[0] for place in placements})
    assert cards == {"packed": 1, "balanced": 2}


def test_a_node_that_is_promised_to_a_released_pod_is_not_given_away(tmp_path: Path) -> None:
    other = GangKey("ml", "other", "Job")
    promised = Record(other, (Placement("other-0", "uid-other-0", "n0"),), 0, 0)
    released = raw_pod("other-0", labels={"job-name": "other"}, containers=[_asking(8)])
    pods = _items(released, _pod("train-0", labels=_LABELS))
    nodes, file = _items(*_NODES[:1]), _write(tmp_path, "plans", _items(promised.to_body()))
    for jobs in (None, _items({**_JOB, "spec": {"parallelism": 1}})):
        assert _placements(_run(tmp_path, nodes, pods, jobs, "--json"))["ml/train"] is not None
        promised_too = _run(tmp_path, nodes, pods, jobs, "--json", "--plans", file)
        assert _placements(promised_too)["ml/train"] is None


def test_a_pod_that_has_a_plan_is_not_planned_again(tmp_path: Path) -> None:
    gang = GangKey("ml", "train", "Job")
    plan = Record(gang, (Placement("train-0", "uid-train-0", "n1"),), 0, 0)
    file = _write(tmp_path, "plans", _items(plan.to_body()))
    pods = _items(*(_pod(f"train-{rank}", labels=_LABELS) for rank in range(2)))
    result = _run(tmp_path, _items(*_NODES[:2]), pods, None, "--json", "--plans", file)
    assert _placements(result) == {"ml/train": [{"pod": "ml/train-1", "node": "n0"}]}


def _asking(gpus: int) -> Raw:
    return raw_container(limits={"nvidia.com/gpu": gpus})


def _placements(result: Result) -> dict[str, object]:
    return {job["name"]: job["placements"] for job in json.loads(result.stdout)["jobs"]}


def _placed_pod(name: str, on: str, job: str, priority: int) -> Raw:
    """A pod of a Job that this scheduler has placed."""
    pod = _pod(name, on=on, labels={"job-name": job})
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pod["spec"] |= {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "priority": priority,
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def test_it_tells_whom_the_scheduler_would_evict(tmp_path: Path) -> None:
    waiting = [_pod(f"train-{rank}", labels=_LABELS) for rank in range(2)]
    for pod in waiting:
        pod["spec"]["priority"] = 9
    others = [
        _placed_pod("a-0", "n0", "a", 1),
        _placed_pod("b-0", "n1", "b", 2),
        _placed_pod("c-0", "n2", "c", 9),
    ]
    jobs = [
        {**_JOB, "metadata": {"name": name, "namespace": "ml"}, "spec": {"parallelism": 1}} for name in "abc"
    ]
    train = {**_JOB, "spec": {"parallelism": 2, "completions": 2}}
    cluster = (tmp_path, _items(*_NODES), _items(*others, *waiting), _items(train, *jobs))
    (job,) = json.loads(_run(*cluster, "--preempt", "--json").stdout)["jobs"]
    assert job["placements"] is None
    assert [victim["name"] for victim in job["preemption"]["victims"]] == ["ml/a", "ml/b"]
    assert [place["node"] for place in job["preemption"]["placements"]] == ["n0", "n1"]
    assert job["preemption"]["settled"]
    drawing = _run(*cluster, "--preempt").stdout
    assert "would be placed once these are evicted" in drawing
    assert "ml/b 1 pod, priority 2" in drawing
    assert "evicted" not in _run(*cluster).stdout
    without_jobs = _run(tmp_path, *cluster[1:3], None, "--preempt")
    assert without_jobs.exit_code == 2
    assert "--preempt needs --jobs" in without_jobs.output


def test_it_says_so_where_evicting_helps_nobody(tmp_path: Path) -> None:
    pods = _items(*(_pod(f"train-{rank}", labels=_LABELS) for rank in range(4)))
    train = {**_JOB, "spec": {"parallelism": 4, "completions": 4}}
    result = _run(tmp_path, _items(*_NODES), pods, _items(train), "--preempt")
    assert "to evict gangs of lower priority would not let it in" in result.stdout
