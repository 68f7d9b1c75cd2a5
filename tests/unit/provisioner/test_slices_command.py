"""`accelet slices plan`, as a person and as a machine use it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from accelet.cli import main
from tests.output_forms import read_form
from tests.unit.provisioner.manifests import (
    job,
    job_set,
    leader_worker_set,
    ray_cluster,
    ray_group,
)


def _run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["slices", "plan", *arguments], input=given)


def _json(*objects: Any, flags: tuple[str, ...] = ()) -> dict[str, Any]:
    result = _run("-f", "-", "--json", *flags, given=yaml.safe_dump_all(objects))
    assert result.exit_code == 0, result.output
    return dict(read_form("slices-plan", result.stdout))


def test_slices_are_shown_as_they_would_be_made() -> None:
    found = _json(job_set(), flags=("--provider", "gke"))

    assert found["refused"] == []
    assert [one["index"] for one in found["slices"]] == [0, 1]
    body = found["slices"][0].pop("body")
    assert found["slices"][0] == {
        "owner": "JobSet/ml/train",
        "replicated_job": "w",
        "index": 0,
        "accelerator": "tpu-v6e-slice",
        "topology": "4x4",
        "hosts": 4,
        "chips_per_host": 4,
        "machine_type": "ct6e-standard-4t",
        "placement": {"type": "COMPACT", "tpuTopology": "4x4"},
    }
    assert body["nodePool"]["initialNodeCount"] == 4


@pytest.mark.parametrize("provider", ["gke", "simulated", "cluster-api"])
def test_every_provider_has_its_own_request(provider: str) -> None:
    found = _json(job(topology="2x4", chips=8, pods=1), flags=("--provider", provider))

    assert found["slices"][0]["placement"] is None
    assert found["slices"][0]["replicated_job"] is None
    kind = {"simulated": "ConfigMap", "cluster-api": "MachineDeployment"}.get(provider)
    assert found["slices"][0]["body"].get("kind") == kind


def test_a_refusal_is_an_answer_and_harms_no_other() -> None:
    malformed = job(name="odd")
    malformed["spec"]["parallelism"] = "four"

    found = _json(job_set(), job(name="bad", pods=2), malformed, {"kind": "Service", "metadata": {}})

    assert len(found["slices"]) == 2
    assert found["refused"] == [
        {
            "owner": "Job/ml/odd",
            "replicated_job": None,
            "reason": "spec.parallelism: Expected `int | null`, got `str`",
        },
        {
            "owner": "Job/ml/bad",
            "replicated_job": None,
            "reason": "4x4 with 4 chips a pod needs 4 pods, the Job has 2",
        },
    ]


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "ReplicaSet"])
def test_other_kinds_that_ask_for_slices_are_refused_by_name(kind: str) -> None:
    asking = {"kind": kind, "metadata": {"name": "serve", "annotations": {"accelet.dev/provision": "true"}}}
    silent = {"kind": kind, "metadata": {"name": "aside"}}

    found = _json(asking, silent, job_set())

    assert len(found["slices"]) == 2
    (refused,) = found["refused"]
    assert refused["owner"] == f"{kind}/default/serve"
    assert "which are made for JobSets, Jobs, LeaderWorkerSets and RayClusters alone" in refused["reason"]


def test_lists_as_kubectl_prints_them_are_taken_apart() -> None:
    items = [{key: value for key, value in job().items() if key != "kind"}]

    assert len(_json({"kind": "JobList", "items": items})["slices"]) == 1
    assert len(_json({"kind": "List", "items": [job(), job_set()]})["slices"]) == 3


def test_people_get_a_line_for_each_slice_and_refusal() -> None:
    result = _run("-f", "-", given=yaml.safe_dump_all([job_set(), job(name="bad[red]", topology="5x5")]))

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "JobSet/ml/train w 0: tpu-v6e-slice 4x4, 4 of ct6e-standard-4t, on-demand, pool s-"
    )
    assert lines[2] == (
        "Job/ml/bad[red]: refused: tpu-v6e-slice has no topology '5x5'; the nearest are 4x8 and 4x4"
    )


def test_a_job_that_does_not_ask_is_planned_and_told_how() -> None:
    raw = job()
    raw["metadata"]["annotations"] = {}

    result = _run("-f", "-", given=yaml.safe_dump(raw))

    assert "pool s-" in result.stdout
    assert 'the annotation accelet.dev/provision: "true" does' in result.stderr


@pytest.mark.parametrize(("topology", "code"), [("4x4", 0), ("5x5", 1)])
def test_check_fails_where_something_is_refused(topology: str, code: int) -> None:
    result = _run("-f", "-", "--check", given=yaml.safe_dump(job_set(topology=topology)))

    assert result.exit_code == code, result.output


def test_a_job_that_is_over_is_refused_nothing() -> None:
    raw = job(topology="5x5") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}

    result = _run("-f", "-", given=yaml.safe_dump(raw))

    assert result.exit_code == 0, result.output
    assert result.stderr == "Job/ml/train: nothing is made: it has finished\n"


def test_first_workers_are_shown_what_they_will_be_told() -> None:
    given = yaml.safe_dump_all([job_set(), job("alone", topology="2x2", pods=1)])

    shown = _run("-f", "-", "--workers", given=given)
    slices = read_form("slices-plan", _run("-f", "-", "--workers", "--json", given=given).stdout)["slices"]

    assert "  TPU_WORKER_HOSTNAMES=train-w-1-0.train,train-w-1-1.train," in shown.stdout
    assert [one["environment"].get("MEGASCALE_SLICE_ID") for one in slices] == ["0", "1", None]
    assert slices[2]["environment"] == {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
    assert "environment" not in json.loads(_run("-f", "-", "--json", given=given).stdout)["slices"][0]


def test_groups_of_a_leader_worker_set_are_planned_and_told_by_its_own_webhook() -> None:
    given = yaml.safe_dump(leader_worker_set(replicas=2))

    result = _run("-f", "-", "--workers", given=given)

    assert result.exit_code == 0, result.output
    assert [line.split(": ")[0] for line in result.stdout.splitlines()] == [
        "LeaderWorkerSet/ml/serve 0",
        "LeaderWorkerSet/ml/serve 1",
    ]
    assert "its own webhook tells the workers who they are" in result.stderr


def test_worker_groups_of_ray_are_planned_also_where_a_job_or_service_makes_their_cluster() -> None:
    cluster = ray_cluster(ray_group("a"), ray_group("b", topology="2x4", hosts=1, chips=8, replicas=2))
    spec, metadata = cluster["spec"], cluster["metadata"]
    job_of_it = {"kind": "RayJob", "metadata": metadata, "spec": {"rayClusterSpec": spec}}
    service = {"kind": "RayService", "metadata": metadata, "spec": {"rayClusterConfig": spec}}

    for raw in (cluster, job_of_it, service):
        result = _run("-f", "-", "--workers", given=yaml.safe_dump(raw))

        assert result.exit_code == 0, result.output
        assert [line.split(": ")[0] for line in result.stdout.splitlines()] == [
            "RayCluster/ml/ray a 0",
            "RayCluster/ml/ray b 0",
            "RayCluster/ml/ray b 1",
        ]
        assert result.stderr == "RayCluster/ml/ray: its own webhook tells the workers who they are\n"


def test_a_worker_group_that_is_refused_takes_no_slices_from_the_others() -> None:
    found = _json(ray_cluster(ray_group("good"), ray_group("bad", topology="4x8", hosts=3)))

    assert [one["replicated_job"] for one in found["slices"]] == ["good"]
    assert [one["replicated_job"] for one in found["refused"]] == ["bad"]


def test_worker_that_cannot_be_read_is_a_sentence() -> None:
    raw = job()
    raw["spec"]["template"]["spec"]["subdomain"] = 7

    result = _run("-f", "-", "--workers", given=yaml.safe_dump(raw))

    assert result.exit_code == 0
    assert "Job/ml/train: its workers cannot be told anything" in result.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [1, 2", "neither YAML nor JSON"),
        ("- just\n- a list", "document 1 is no Kubernetes object"),
        ("kind: List\nitems: 7", "items is no list"),
        ("kind: List\nitems: [7]", r"items[0] is no object"),
        ("\x00", "neither YAML nor JSON"),
        ("[" * 5000, "nested more than 100 deep"),
        ("{" + "a: {" * 150 + "}" * 151, "nested more than 100 deep"),
        ("date: 2026-13-45", "neither YAML nor JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(text: str, sentence: str) -> None:
    result = _run("-f", "-", given=text)

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output


def test_a_few_lines_that_stand_for_a_billion_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    result = _run("-f", "-", given="\n".join(lines))

    assert result.exit_code == 2
    assert "more than 500000 values" in result.stderr


def test_an_object_that_contains_itself_is_refused() -> None:
    result = _run("-f", "-", given="a: &a\n  b: *a\n")

    assert result.exit_code == 2
    assert result.stderr.startswith("Error: -")


def test_settings_are_read_and_their_mistakes_shown_with_line(tmp_path: Path) -> None:
    config, manifest = tmp_path / "config.yaml", tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(job()))
    config.write_text("version: v1\ntiers: [spott]\n")
    wrong = _run("-f", str(manifest), "--config", str(config))
    config.write_text("version: v1\nprovider: gke\nzones: [us-east5-b]\n")
    right = _run("-f", str(manifest), "--config", str(config), "--json")

    assert wrong.exit_code == 2
    assert "config.yaml:2: tiers[0]: 'spott' is no tier" in wrong.stderr
    assert json.loads(right.stdout)["slices"][0]["body"]["nodePool"]["locations"] == ["us-east5-b"]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    result = _run("-f", str(tmp_path / "nowhere.yaml"))

    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_a_job_in_a_queue_whose_tpus_a_flavor_names_is_told_how_to_see_its_plan() -> None:
    raw = job_set()
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "tpus"}
    template = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    flavor = template.pop("nodeSelector")
    result = _run("-f", "-", given=yaml.safe_dump(raw))
    assert "do not select cloud.google.com/gke-tpu-accelerator" in result.stdout
    assert "JobSet/ml/train: a ResourceFlavor of its queue may add node labels" in result.stderr

    template["nodeSelector"] = flavor
    found = _json(raw, flags=("--workers",))
    assert [one["environment"]["MEGASCALE_SLICE_ID"] for one in found["slices"]] == ["0", "1"]
