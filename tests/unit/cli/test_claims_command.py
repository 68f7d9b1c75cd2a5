"""`accelet claims` on files as kubectl prints them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from accelet.claims.requests import parse_claim, parse_device_class
from accelet.claims.slices import parse_slice
from accelet.cli import main
from accelet.kube.nodes import parse_node
from accelet.scheduler.claims.outlook import Objects, foresee
from tests.output_forms import read_form
from tests.unit.claims.test_first_fit import asked, claim, device, held, slice_of

Json = dict[str, Any]


@pytest.fixture
def files(tmp_path: Path) -> "Files":
    return Files(tmp_path)


class Files:
    """Lists in files, and the command that reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given: list[str] = []

    def add(self, option: str, *items: Json) -> "Files":
        path = self._folder / option
        path.write_text(json.dumps({"kind": "List", "items": list(items)}))
        self._given += [f"--{option}", str(path)]
        return self

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["claims", *self._given, *arguments])

    def view(self, *arguments: str) -> list[Json]:
        result = self.run("--json", *arguments)
        assert result.exit_code == 0, result.output
        return list(read_form("claims", result.stdout)["outlooks"])


NODES: tuple[Json, ...] = tuple(
    {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": {}} for name in ("n1", "n2")
)
CLASSES = ({"metadata": {"name": "any"}, "spec": {}},)


def _pod(*claims: Json, name: str = "p") -> Json:
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {"resourceClaims": list(claims)},
    }


def _cluster(files: Files, *devices: Json) -> Files:
    return files.add("nodes", *NODES).add("slices", slice_of(*devices)).add("classes", *CLASSES)


def test_a_claim_that_waits_is_told_where_it_would_get_what(files: Files) -> None:
    _cluster(files, device("a"), device("b")).add("claims", claim(asked()), held("a"))
    waits, holds = files.view()
    assert (waits["state"], waits["fitting"], waits["first"]) == ("fits", 1, "n1")
    assert waits["claims"] == [
        {
            "claim": "c",
            "devices": [
                {
                    "request": "r",
                    "driver": "gpu.example.com",
                    "pool": "p",
                    "device": "b",
                    "admin": False,
                    "consumed": {},
                }
            ],
        }
    ]
    assert waits["reasons"] == [{"nodes": 1, "reason": "r: no device matches", "fails": False}]
    assert (holds["state"], holds["claims"][0]["devices"][0]["device"]) == ("held", "a")


def test_the_claims_of_a_pod_are_served_together(files: Files) -> None:
    _cluster(files, device("a"), device("b")).add("claims", claim(asked(count=1), name="one"))
    template = {
        "metadata": {"name": "two", "namespace": "ml"},
        "spec": {"spec": claim(asked(count=2))["spec"]},
    }
    pod = _pod({"name": "x", "resourceClaimName": "one"}, {"name": "y", "resourceClaimTemplateName": "two"})
    (found,) = files.add("templates", template).add("pods", pod).view()
    assert (found["pod"], found["state"]) == ("p", "waits")
    assert [one["claim"] for one in found["claims"]] == ["one", "p-y"]
    assert "they do not fit together" in found["reasons"][0]["reason"] + found["reasons"][1]["reason"]


def test_a_pod_whose_claim_is_missing_waits_for_it(files: Files) -> None:
    _cluster(files, device("a")).add("claims", claim(asked()))
    pod = _pod({"name": "x", "resourceClaimName": "c"}, {"name": "y", "resourceClaimName": "gone"})
    (found,) = files.add("pods", pod).view()
    assert found["reasons"][0]["reason"] == "there is no claim or template gone"


def test_a_pod_whose_only_claim_is_missing_is_shown(files: Files) -> None:
    _cluster(files, device("a")).add("pods", _pod({"name": "x", "resourceClaimName": "gone"}))
    (found,) = files.view()
    assert (found["state"], found["claims"]) == ("waits", [{"claim": "gone", "devices": []}])
    assert "gone" in files.run().stdout


def test_what_would_take_too_long_is_not_known() -> None:
    claims = [parse_claim(claim(asked(), name=f"c{at}")) for at in range(3)]
    nodes = [parse_node(one) for one in NODES]
    classes = [parse_device_class(one) for one in CLASSES]
    found = foresee(Objects(nodes, [parse_slice(slice_of(device("a")))], classes, claims), work=2500)
    assert [one.state for one in found.outlooks] == ["fits", "unknown", "unknown"]
    assert "name a namespace or a node" in found.outlooks[-1].reasons[0].reason


def test_an_allocated_claim_binds_its_pod_to_its_nodes(files: Files) -> None:
    bound = held("a")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    bound["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    _cluster(files, device("a"), device("b")).add("claims", claim(asked()), bound)
    pod = _pod({"name": "x", "resourceClaimName": "c"}, {"name": "y", "resourceClaimName": "h"})
    (found,) = files.add("pods", pod).view()
    assert found["state"] == "waits"
    assert "claim h is allocated, and bound to other nodes" in {one["reason"] for one in found["reasons"]}


def test_people_get_a_row_for_each_claim(files: Files) -> None:
    odd = claim(asked("1 == [red]"), name="odd")
    result = _cluster(files, device("a")).add("claims", claim(asked()), odd).run()
    assert result.exit_code == 0, result.output
    heads, *rows = result.stdout.splitlines()
    assert heads.split() == ["NAMESPACE", "POD", "CLAIM", "STATE", "DEVICES", "WHY"]
    assert "r=gpu.example.com/p/a" in rows[0]
    assert "1 node would serve it now, such as n1; 1 node: r: no device matches" in rows[0]
    assert "unknown" in rows[1]


def test_one_namespace_and_one_node_can_be_chosen(files: Files) -> None:
    _cluster(files, device("a")).add("claims", claim(asked()))
    assert files.view("-n", "other") == []
    assert files.view("--node", "n2")[0]["state"] == "waits"
    assert files.run("-n", "other").stdout == "No pod uses a resource claim, and there is none.\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--node", "n9"], "none of the 2 nodes is called n9"),
        (["--pods", "-", "--templates", "-"], "only one file can be read from the standard input"),
    ],
)
def test_wrong_arguments_are_explained(files: Files, arguments: list[str], told: str) -> None:
    result = _cluster(files, device("a")).run(*arguments)
    assert result.exit_code == 2
    assert told in result.output


def test_files_that_belong_together_are_asked_for(files: Files) -> None:
    result = files.add("claims").run()
    assert result.exit_code == 2
    assert "--nodes, --slices and --classes belong together" in result.output
    result = (
        Files(files._folder)
        .add("nodes", *NODES)
        .add("slices", {"metadata": {"name": "s"}, "spec": 3})
        .add("classes")
        .run()
    )
    assert result.exit_code == 2
    assert "ResourceSlice s" in result.output
