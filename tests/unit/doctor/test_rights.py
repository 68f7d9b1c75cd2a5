"""What doctor asks for is what deploy/ gives, right by right."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from accelet.agent.config import parse_config
from accelet.doctor.rights import (
    ASSIGNMENTS,
    CARDS,
    DRA,
    NODE_LABELS,
    PROVISIONER,
    SCHEDULER,
    Right,
    agent_rights,
)

DEPLOY = Path(__file__).parents[3] / "deploy"

OTHERS = ("jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org", "ray.io", "sparkoperator.k8s.io")
"""Kinds of other projects: who has them not needs no right to them."""


def given(file: str) -> Iterator[Right]:
    for manifest in yaml.safe_load_all((DEPLOY / file).read_text()):
        if manifest["kind"] not in ("Role", "ClusterRole"):
            continue
        namespace = manifest["metadata"].get("namespace", "")
        for rule in manifest["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        for verb in rule["verbs"]:
                            yield Right(verb, resource, group, namespace, name)


@pytest.mark.parametrize(
    ("rights", "file"),
    [
        (ASSIGNMENTS, "agent-assignments/rbac.yaml"),
        (CARDS, "agent-cards/rbac.yaml"),
        (NODE_LABELS, "agent-tpu/rbac.yaml"),
        (DRA, "agent-dra/rbac.yaml"),
        (SCHEDULER, "scheduler.yaml"),
        (PROVISIONER, "provisioner/rbac.yaml"),
    ],
)
def test_what_is_asked_for_is_what_is_given(rights: Iterable[Right], file: str) -> None:
    shipped = {right for right in given(file) if right.group not in OTHERS and right.namespace != "default"}
    assert set(rights) <= shipped, "what is missing would be asked for in vain"
    assert {right.resource for right in rights} >= {"pods", "nodes"} & {right.resource for right in shipped}


def test_a_plain_configuration_needs_no_right() -> None:
    assert list(agent_rights(parse_config("version: v1\nresources: []\n", "config.yaml"))) == []


def test_a_configuration_that_follows_assignments_needs_to_see_pods() -> None:
    text = (
        "version: v1\nresources:\n- {name: gpu.intel.com/i915, backend: intel-gpu, assignment: annotations}\n"
    )
    config = parse_config(text, "config.yaml")
    assert dict(agent_rights(config)) == dict.fromkeys(ASSIGNMENTS, "assignments")


def test_a_right_is_asked_for_as_reviews_spell_it() -> None:
    right = Right("patch", "pods/status", name="a", namespace="b")
    assert right.attributes() == {
        "verb": "patch", "resource": "pods", "subresource": "status", "namespace": "b", "name": "a",
    }  # fmt: skip
    assert str(right) == "patch pods/status a in b"
