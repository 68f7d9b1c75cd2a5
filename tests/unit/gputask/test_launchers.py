"""What launchers of several processes are told in a rank's environment."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.clusterdomain import find_cluster_domain, read_cluster_domain
from accelet.gputask.objects.manifests import job_body
from accelet.kinds.gputask import TaskCards, TaskContainer, TaskVariable
from tests.unit.gputask.world import make_task

PREFIX = "gke.io/topology-aware-auto-"
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"


def _environment(domain: str = "cluster.local", **spec: Any) -> dict[str, Any]:
    body = job_body(make_task(spec=spec), 3, PREFIX, None, domain)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", ())}


def _container(**env: str) -> TaskContainer:
    variables = tuple(TaskVariable(name=name, value=value) for name, value in env.items())
    return TaskContainer(image="app", env=variables)


def test_an_elastic_task_has_a_rendezvous_that_waits_for_the_least_ranks() -> None:
    said = _environment(replicas=8, min_replicas=4)

    assert said["PET_NNODES"] == "4:8"
    assert said["PET_RDZV_BACKEND"] == "c10d"
    assert said["PET_RDZV_ENDPOINT"] == "train-3-0.train.ml.svc.cluster.local:29400"
    assert said["PET_RDZV_ID"] == "train-3"


def test_each_attempt_has_a_rendezvous_of_its_own() -> None:
    ids = {
        next(
            one["value"]
            for one in job_body(make_task(spec={"replicas": 2, "min_replicas": 1}), attempt, PREFIX, None)[
                "spec"
            ]["template"]["spec"]["containers"][0]["env"]
            if one["name"] == "PET_RDZV_ID"
        )
        for attempt in (1, 2, 3)
    }
    assert len(ids) == 3


@pytest.mark.parametrize("spec", [{"replicas": 8}, {"replicas": 8, "min_replicas": 8}])
def test_a_task_that_needs_all_ranks_has_torchruns_static_rendezvous(spec: dict[str, Any]) -> None:
    said = _environment(**spec)

    assert said["PET_NNODES"] == "8"
    assert not [name for name in said if name.startswith("PET_RDZV")]


def test_the_rendezvous_is_named_in_the_domain_of_the_cluster() -> None:
    said = _environment("k8s.example.org", replicas=2, min_replicas=1)

    assert said["PET_RDZV_ENDPOINT"] == "train-3-0.train.ml.svc.k8s.example.org:29400"


@pytest.mark.parametrize(
    ("cards", "env", "count"),
    [
        ({"cards": 1, "tiles": 2}, {}, "2"),
        ({"cards": 2, "tiles": 4}, {HIERARCHY: "FLAT"}, "4"),
        ({"cards": 2, "tiles": 4}, {HIERARCHY: "COMBINED"}, "4"),
        ({"cards": 2, "tiles": 4}, {HIERARCHY: "COMPOSITE"}, "2"),
        ({"resource": "gpu.intel.com/xe", "cards": 2, "tiles": 2}, {}, "2"),
        ({"cards": 2}, {}, "2"),
        ({"cards": 1, "millicores": 500}, {}, "1"),
        ({"resource": "nvidia.com/gpu", "cards": 8}, {}, "8"),
        ({"resource": "google.com/tpu", "cards": 4}, {}, "4"),
        ({"resource": "nvidia.com/gpu", "cards": 8}, {"PET_NPROC_PER_NODE": "2"}, "2"),
    ],
)
@pytest.mark.parametrize("replicas", [1, 4])
def test_torchrun_starts_a_process_for_each_device_of_a_rank(
    cards: dict[str, Any], env: dict[str, str], count: str, replicas: int
) -> None:
    said = _environment(cards=TaskCards(**cards), container=_container(**env), replicas=replicas)

    assert said["PET_NPROC_PER_NODE"] == count


@pytest.mark.parametrize("spec", [{}, {"cards": TaskCards(cards=4), "rendezvous": "None"}])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_task_without_cards_or_rendezvous_is_told_no_number_of_processes(
    spec: dict[str, Any], replicas: int
) -> None:
    assert "PET_NPROC_PER_NODE" not in _environment(replicas=replicas, **spec)


@given(
    replicas=st.integers(1, 4096),
    least=st.integers(1, 4096),
    cards=st.integers(1, 64),
    per_card=st.integers(1, 8) | st.none(),
    hierarchy=st.sampled_from(["", "FLAT", "COMPOSITE"]),
)
def test_no_rank_waits_for_more_ranks_than_it_may_begin_with(
    replicas: int, least: int, cards: int, per_card: int | None, hierarchy: str
) -> None:
    least = min(least, replicas)
    asked = TaskCards(cards=cards, tiles=None if per_card is None else cards * per_card)
    own = _container(**{HIERARCHY: hierarchy} if hierarchy else {})
    said = _environment(replicas=replicas, min_replicas=least, cards=asked, container=own)

    processes = int(said["PET_NPROC_PER_NODE"])
    assert processes in (cards, asked.tiles)
    if "PET_NNODES" in said:
        fewest, _, most = said["PET_NNODES"].partition(":")
        assert (int(fewest), int(most or fewest)) == (least, replicas)
        assert (said.get("PET_RDZV_BACKEND") == "c10d") == (least < replicas)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("search kube-system.svc.cluster.local svc.cluster.local cluster.local\n", "cluster.local"),
        ("nameserver 10.0.0.10\nsearch a.svc.corp.example svc.corp.example. corp.example\n", "corp.example"),
        ("search svc.old.example\nsearch example.org\n", ""),
        ("# search svc.cluster.local\n", ""),
        ("search\nsearch example.org", ""),
        ("", ""),
    ],
)
def test_the_domain_of_the_cluster_is_that_of_the_search_list(text: str, domain: str) -> None:
    assert find_cluster_domain(text) == domain


def test_outside_of_a_cluster_its_domain_is_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_bytes(b"\xff search example.org\n")

    assert read_cluster_domain(tmp_path / "none") == "cluster.local"
    assert read_cluster_domain(tmp_path / "resolv.conf") == "cluster.local"


@given(st.text(max_size=200))
def test_no_text_of_a_resolver_is_a_failure(text: str) -> None:
    assert " " not in find_cluster_domain(text)
