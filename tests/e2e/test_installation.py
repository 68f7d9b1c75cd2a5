"""What deploy/kustomization.yaml installs is whole, and its parts fit one another and the code."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import accelet
from accelet.accelerators.intel.monitoring import MonitoringMode, monitoring_resources
from accelet.agent.config import parse_config
from accelet.assignments.gas import CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.scheduler.cards.needs import CARD_RESOURCES
from accelet.scheduler.gangs.grouping import CARDS_GATE
from accelet.scheduler.record import LABEL, PLAN_NAME
from accelet.scheduler.settings import read_settings
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.workloads import COLLECTIONS, Workloads
from tests.e2e.kustomize import DEPLOY, build

POLICIES = DEPLOY / "policies"
SCHEDULER = "system:serviceaccount:kube-system:accelet-scheduler"
PARTS = ("gpu.intel.com/tiles", "gpu.intel.com/millicores", "gpu.intel.com/memory.max")
Manifest = dict[str, Any]
Identity = tuple[str, str, str]


def documents(path: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(path.read_text()))


def identity(manifest: Manifest) -> Identity:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def gathered(folder: Path) -> Iterator[Manifest]:
    """The objects that a kustomization names, before any patch, whatever kustomizations it is built on."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    for name in kustomization["resources"]:
        path = folder / name
        yield from gathered(path) if path.is_dir() else documents(path)


@pytest.fixture(scope="module")
def built(binaries: Binaries) -> Sequence[Manifest]:
    """Everything, as it is installed."""
    return build(DEPLOY, binaries.path("kubectl"))


def of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def test_every_part_is_named_once_and_all_policies_are_in_it() -> None:
    made = [identity(each) for each in gathered(DEPLOY)]
    assert len(set(made)) == len(made)
    policies = {
        identity(each) for path in POLICIES.glob("*.yaml") for each in documents(path) if "metadata" in each
    }
    assert policies <= set(made)
    assert {"DaemonSet", "Deployment", "ServiceAccount", "ClusterRoleBinding"} <= {kind for kind, *_ in made}


def test_what_is_built_is_what_is_gathered(built: Sequence[Manifest]) -> None:
    assert sorted(map(identity, built)) == sorted(map(identity, gathered(DEPLOY)))


def test_everything_referred_to_is_there(built: Sequence[Manifest]) -> None:
    there = set(map(identity, built))
    for each in built:
        namespace = each["metadata"].get("namespace", "")
        for subject in each.get("subjects", ()):
            assert (subject["kind"], subject["namespace"], subject["name"]) in there
        if role := each.get("roleRef"):
            assert (role["kind"], namespace if role["kind"] == "Role" else "", role["name"]) in there
        if policy := each.get("spec", {}).get("policyName"):
            assert (each["kind"].removesuffix("Binding"), "", policy) in there
        if each["kind"] in ("DaemonSet", "Deployment"):
            pod = each["spec"]["template"]["spec"]
            assert ("ServiceAccount", namespace, pod["serviceAccountName"]) in there
            for volume in pod["volumes"]:
                assert (
                    "configMap" not in volume
                    or ("ConfigMap", namespace, volume["configMap"]["name"]) in there
                )


def test_every_policy_is_bound_and_refuses(built: Sequence[Manifest]) -> None:
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        policies, bindings = of_kind(built, kind), of_kind(built, f"{kind}Binding")
        assert {each["spec"]["policyName"] for each in bindings.values()} == policies.keys()
        assert {each["spec"]["failurePolicy"] for each in policies.values()} == {"Fail"}
    assert all(each["spec"]["validationActions"] == ["Deny"] for each in bindings.values())


def test_images_are_of_this_version(built: Sequence[Manifest]) -> None:
    images = [
        container["image"]
        for each in built
        if each["kind"] in ("DaemonSet", "Deployment")
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert images == [f"accelet:{accelet.__version__}"] * 2


def test_configurations_are_understood(built: Sequence[Manifest], tmp_path: Path) -> None:
    configured = of_kind(built, "ConfigMap")
    agents = parse_config(configured["accelet-agent"]["data"]["config.yaml"], "the agent's")
    assert agents.publish_cards
    followed = {each.name: each.rules.following for each in agents.resources if each.rules.following}
    assert tuple(followed) == CARD_RESOURCES
    assert {policies.on_conflict for policies in followed.values()} == {"refuse"}
    assert {each.rules.is_distinct for each in agents.resources if each.rules.following} == {True}
    (tmp_path / "config.yaml").write_text(configured["accelet-scheduler"]["data"]["config.yaml"])
    read_settings(tmp_path / "config.yaml")


def test_settings_of_the_scheduler_in_comments_are_understood(tmp_path: Path) -> None:
    configured = of_kind(documents(DEPLOY / "scheduler.yaml"), "ConfigMap")["accelet-scheduler"]
    text = configured["data"]["config.yaml"].replace("\n# ", "\n")
    (tmp_path / "config.yaml").write_text(text)
    settings = read_settings(tmp_path / "config.yaml")
    assert len(settings.levels) == 3
    assert settings.cards.policy == "packed"


def test_policies_know_the_schedulers_account(built: Sequence[Manifest]) -> None:
    deployment = of_kind(built, "Deployment")["accelet-scheduler"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert f"system:serviceaccount:{deployment['metadata']['namespace']}:{account}" == SCHEDULER
    named = {
        match
        for path in POLICIES.glob("*.yaml")
        for match in re.findall(r"system:serviceaccount:[\w:-]+", path.read_text())
    }
    assert named == {SCHEDULER}


def test_policies_know_the_words_of_the_code() -> None:
    text = {path.stem: path.read_text() for path in POLICIES.glob("*.yaml")}
    for annotation in (ASSIGNMENT_ANNOTATION, CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION):
        assert f'"{annotation}"' in text["assignments"]
    assert f'"{LABEL}" in object' in text["assignments"]
    assert f'startsWith("{PLAN_NAME}")' in text["assignments"]
    for name in (*CARD_RESOURCES, *PARTS):
        assert f'"{name}"' in text["gate"]
        assert f'"{name}"' in text["requests"]
    modes: tuple[MonitoringMode, ...] = ("single", "split")
    for mode in modes:
        for name, _ in monitoring_resources(mode):
            assert f'"{name}"' in text["monitoring"]
    assert f'{{name: "{CARDS_GATE}"}}' in text["gate"]
    for policies in ("requests", "assignments"):
        assert f'gate.name == "{CARDS_GATE}"' in text[policies]


def test_every_part_is_admitted_to_the_letter(workloads: Workloads, built: Sequence[Manifest]) -> None:
    for manifest in built:
        kind, metadata = manifest["kind"], manifest["metadata"]
        path = COLLECTIONS[kind].format(namespace=metadata.get("namespace"))
        # Only judged: there is no image here to run, and the policies would judge other tests.
        answer = workloads.client.send("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        assert json.loads(answer)["metadata"]["name"] == metadata["name"]
