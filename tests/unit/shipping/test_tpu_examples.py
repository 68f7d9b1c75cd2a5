"""The pods of examples/tpus ask for what docs/tpu.md says of them."""

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from accelet.cli import main
from accelet.kube.podparser import parse_pod
from accelet.scheduler.gangs.grouping import EXCLUSIVE, is_gated

EXAMPLES = Path(__file__).parents[3] / "examples" / "tpus"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


def test_one_host_asks_for_the_chips_of_one() -> None:
    (raw,) = documents("one-host")
    pod = parse_pod(raw)
    assert pod.containers[0].limits == {"google.com/tpu": 4}
    assert not pod.gates


def test_four_hosts_are_one_gang_with_a_host_each() -> None:
    service, job = documents("four-hosts")
    template = job["spec"]["template"]
    name = service["spec"]["selector"]["job-name"]
    pod = parse_pod({**template, "metadata": {**template["metadata"], "name": f"{name}-0"}})
    assert job["metadata"]["name"] == name
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 4
    assert template["spec"]["subdomain"] == service["metadata"]["name"]
    assert is_gated(pod)
    assert pod.annotations[EXCLUSIVE] == "true"
    assert pod.containers[0].limits == {"google.com/tpu": 4}


def test_two_slices_are_planned_as_the_page_on_slices_shows() -> None:
    done = CliRunner().invoke(main, ["slices", "plan", "-f", str(EXAMPLES / "two-slices.yaml")])
    assert done.exit_code == 0
    assert done.output in (EXAMPLES.parents[1] / "docs" / "provisioner.md").read_text()
