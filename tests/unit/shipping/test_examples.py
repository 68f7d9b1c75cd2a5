"""The pods of examples/pods are what the scheduler reads them as."""

from pathlib import Path

import pytest

from accelet.kube.podparser import parse_pod
from resourcemanager.gas import CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION
from resourcemanager.ownform import ASSIGNMENT_ANNOTATION
from tests.example_pods import EXAMPLES, example_pods

SHARING = (Path(__file__).parents[3] / "docs" / "sharing.md").read_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_asks_for_parts_and_forges_nothing(path: Path) -> None:
    for raw in example_pods(path):
        pod = parse_pod(raw)
        asked = {name for container in pod.all_containers for name in container.limits}
        assert asked & {"gpu.intel.com/tiles", "gpu.intel.com/millicores", "gpu.intel.com/memory.max"}
        protected = {ASSIGNMENT_ANNOTATION, CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION}
        assert not protected & pod.annotations.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_page_on_sharing_leads_to_the_example(path: Path) -> None:
    assert f"(../examples/pods/{path.name})" in SHARING
