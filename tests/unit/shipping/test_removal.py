"""Each part of deploy/ can be removed without loss to another, by the table in docs/operating.md."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from tests.unit.shipping.removal import DEPLOY, removals

AGENTS = {"daemonset.yaml"} | {f"deploy/{path.name}" for path in DEPLOY.glob("agent*")}
"""Alternatives: each brings the one DaemonSet."""

WHOLE = "deploy"
"""Scheduler, policies, agent with cards and their network policies together."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def made_by(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of a kustomization before its patches and generators."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    for name in kustomization["resources"]:
        path = folder / name
        yield from made_by(path) if path.is_dir() else documents(path)


def identities(manifests: Iterator[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in manifests
    }


def parts() -> Mapping[str, set[tuple[str, str, str]]]:
    """All that can be applied by itself: kustomizations, and files beside them."""
    folders = [path.parent for path in DEPLOY.rglob("kustomization.yaml") if "chart" not in path.parts]
    files = [path for path in DEPLOY.glob("*.yaml") if path.name != "kustomization.yaml"]
    named = {
        f"deploy/{each.relative_to(DEPLOY)}".removesuffix("/."): identities(made_by(each)) for each in folders
    }
    return named | {f"deploy/{each.name}": identities(iter(documents(each))) for each in files}


def test_kinds_are_in_no_part_but_their_own() -> None:
    with_kinds = {
        name for name, made in parts().items() if any(kind == "CustomResourceDefinition" for kind, *_ in made)
    }
    assert with_kinds == {"deploy/crds", "deploy/crds/original"}


def test_no_object_is_in_two_parts_that_may_be_installed_side_by_side() -> None:
    shared = {
        (one, other): both
        for (one, first), (other, second) in combinations(parts().items(), 2)
        if (both := first & second) and WHOLE not in (one, other) and not {one, other} <= AGENTS
    }
    assert shared == {}


def test_whole_installation_shares_no_object_with_parts_it_is_not_made_of() -> None:
    every = parts()
    made_of = AGENTS | {"deploy/policies", "deploy/network.yaml", "deploy/scheduler.yaml"}
    assert {name for name in every if name not in {*made_of, WHOLE} and every[WHOLE] & every[name]} == set()


def test_table_removes_every_part_once() -> None:
    told = [name for removal in removals() for name in removal.parts]
    assert sorted(told) == sorted({*(parts().keys() - AGENTS - {WHOLE}), "daemonset.yaml"})


def test_table_names_kinds_after_their_controllers() -> None:
    order = [name for removal in removals() for name in removal.parts]
    assert order.index("deploy/crds") > max(order.index("deploy/tasks"), order.index("deploy/provisioner"))


def test_manuals_install_the_kinds_before_what_needs_them() -> None:
    for manual in ("gputask.md", "provisioner.md"):
        applied = re.findall(
            r"^    kubectl apply -k (\S+)", (DEPLOY.parent / "docs" / manual).read_text(), re.MULTILINE
        )
        needs = [name for name in applied if name in ("deploy/tasks", "deploy/provisioner")]
        assert needs
        assert applied.index("deploy/crds") < applied.index(needs[0])
