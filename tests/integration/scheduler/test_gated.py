"""`accelet gated` at an API server: what is gated, what is lifted, and what keeps a pod gated."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelet.cli import main
from accelet.cli.reading.gatedpods import GATE, GUARD, lift_all, list_gated
from accelet.fakeapi import Answer, FakeApi, Fault
from accelet.fakeapi.podrules import pod_rules
from accelet.kube.client import Client
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX

PODS = "api/v1/pods"
POLICIES = "apis/admissionregistration.k8s.io/v1"
BINDINGS = {
    f"{POLICIES}/mutatingadmissionpolicybindings": GATE,
    f"{POLICIES}/validatingadmissionpolicybindings": GUARD,
}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.state.validate["pods"] = pod_rules
    for resource, name in BINDINGS.items():
        api.state.create(resource, "", {"metadata": {"name": name}})
    return api


def add_pod(api: FakeApi, name: str, *gates: str) -> None:
    spec = {"containers": [{"name": "main"}], "schedulingGates": [{"name": gate} for gate in gates]}
    api.state.create(PODS, "ml", {"metadata": {"name": name}, "spec": spec})


def gates(api: FakeApi, name: str) -> list[str]:
    (pod,) = (one for one in api.state.list(PODS, {}, None)["items"] if one["metadata"]["name"] == name)
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def bindings(api: FakeApi) -> set[str]:
    return {each["metadata"]["name"] for name in BINDINGS for each in api.state.list(name, {}, None)["items"]}


def run(api: FakeApi, tmp_path: Path, *words: str) -> Result:
    with api:
        config = api.write_kubeconfig(tmp_path / "kubeconfig")
        return CliRunner().invoke(main, ["gated", "--kubeconfig", str(config), *words])


def test_nothing_is_changed_without_being_asked_for(api: FakeApi, tmp_path: Path) -> None:
    add_pod(api, "waits", CARDS_GATE)
    add_pod(api, "rank-0", f"{GATE_PREFIX}train")
    add_pod(api, "others", "example.com/other")
    add_pod(api, "free")
    said = run(api, tmp_path)
    assert said.exit_code == 0
    lines = [line.split() for line in said.output.splitlines()]
    assert lines[1:] == [
        ["ml", "rank-0", f"{GATE_PREFIX}train", "gated"],
        ["ml", "waits", CARDS_GATE, "gated"],
    ]
    assert gates(api, "waits") == [CARDS_GATE]
    assert bindings(api) == {GATE, GUARD}


def test_pods_that_are_still_gated_fail_what_asks_for_none(api: FakeApi, tmp_path: Path) -> None:
    add_pod(api, "waits", CARDS_GATE)
    said = run(api, tmp_path, "--fail")
    assert said.exit_code == 1
    assert "Pods are still gated." in said.output


def test_no_gated_pod_is_said_and_no_failure(api: FakeApi, tmp_path: Path) -> None:
    said = run(api, tmp_path, "--fail", "--stop-gating")
    assert (said.exit_code, said.output) == (0, "No pod is gated.\n")
    assert bindings(api) == {GUARD}


def test_our_gates_are_lifted_and_those_of_others_stay(api: FakeApi, tmp_path: Path) -> None:
    add_pod(api, "waits", CARDS_GATE)
    add_pod(api, "rank-0", f"{GATE_PREFIX}train", "example.com/other")
    said = run(api, tmp_path, "--lift", "--fail")
    assert said.exit_code == 0
    assert said.output.count("released") == 2
    assert gates(api, "waits") == []
    assert gates(api, "rank-0") == ["example.com/other"]
    assert bindings(api) == {GATE}


async def test_a_pod_that_may_not_be_changed_harms_no_other(api: FakeApi, tmp_path: Path) -> None:
    for name in ("first", "second"):
        add_pod(api, name, CARDS_GATE)
    api.faults.append(Fault(Answer(403), method="PATCH", path="/pods/first", times=1_000_000))
    with api:
        client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
        try:
            pods, notes = await list_gated(client)
            stuck = await lift_all(client, pods, each_s=1.0)
        finally:
            client.close()
    assert [pod.name for pod in stuck] == ["first"]
    assert notes == []
    assert gates(api, "second") == []


async def test_a_pod_that_changes_meanwhile_is_lifted_as_it_is_then(api: FakeApi, tmp_path: Path) -> None:
    add_pod(api, "waits", CARDS_GATE)
    api.faults.append(Fault(Answer(409), method="PATCH", path="/pods/waits", times=2))
    with api:
        client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
        try:
            pods, _ = await list_gated(client)
            assert await lift_all(client, pods) == []
        finally:
            client.close()
    assert gates(api, "waits") == []


def test_a_pod_that_is_malformed_is_named_and_the_others_are_seen(api: FakeApi, tmp_path: Path) -> None:
    add_pod(api, "waits", CARDS_GATE)
    api.state.create(PODS, "ml", {"metadata": {"name": "broken"}, "spec": {"containers": "none"}})
    said = run(api, tmp_path)
    assert said.exit_code == 0
    assert "not looked at: " in said.output
    assert "broken" in said.output
    assert "waits" in said.output
