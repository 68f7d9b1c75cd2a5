"""Scenario files, and the commands that play them, against the sample plugin as a process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
import yaml

from accelet.fakekubelet import FakeKubelet
from accelet.fakekubelet.sample_plugin import SamplePlugin
from accelet.fakekubelet.scenario import FakeTarget, comparable, play, read_scenario, schema
from tests.integration.fakekubelet.conftest import running
from tests.output_forms import read_form

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))


@contextmanager
def sample_process(root: Path, devices: Path) -> Iterator[None]:
    folder = root / "device-plugins"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "accelet.fakekubelet.sample_plugin", "--dir", folder, "--devices", devices]
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def fake_kubelet(root: Path, scenario: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "accelet", "fake-kubelet", "--dir", root, "--scenario", scenario, *more],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_what_the_schema_says(example: Path) -> None:
    jsonschema.validate(yaml.safe_load(example.read_text()), schema())
    assert read_scenario(example).steps


def test_the_schema_in_the_documentation_is_current() -> None:
    assert json.loads((ROOT / "docs/scenario.schema.json").read_text()) == json.loads(json.dumps(schema()))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_sample_plugin_plays_each_example(example: Path, root: Path, devices: Path) -> None:
    with sample_process(root, devices):
        done = fake_kubelet(root, example, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    events = [read_form("fake-kubelet", line) for line in done.stdout.splitlines()]
    assert sum(event["event"].startswith("step:") for event in events) == len(read_scenario(example).steps)


def test_a_plugin_that_misbehaves_is_told_in_what(root: Path, devices: Path) -> None:
    (devices / "dev-3").unlink()
    with sample_process(root, devices):
        scenario = root / "scenario.yaml"
        scenario.write_text(
            "version: v1\nseed: 5\nsteps:\n"
            "  - wait: {resource: example.com/sample, healthy: 4, within_s: 0.5}\n"
            "  - admit: {pod: a, limits: {example.com/sample: 4}}\n"
        )
        done = fake_kubelet(root, scenario)
    assert done.returncode == 1
    first, second, seed = done.stderr.splitlines()
    assert first.startswith(
        "the plugin misbehaved: step 1 (wait): example.com/sample did not come to healthy 4 in 0.5 s; "
        "it is healthy 3, unhealthy 0"
    )
    assert "step 2 (admit): pod default/a should be running and is rejected" in second
    assert seed == "seed 5, kubelet 1.36"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "scenario.yaml:1: the file is empty"),
        ("version: v2\nsteps: []", "scenario.yaml:1: version: must be one of v1"),
        (
            "version: v1\nsteps:\n  - wait: {resorce: a/b}",
            "scenario.yaml:3: steps[0].wait.resorce: is not a setting; did you mean resource?",
        ),
        ("version: v1\nsteps:\n  - {}", "scenario.yaml:3: steps[0]: a step is one action, not none"),
        (
            "version: v1\nsteps:\n  - {stop_kubelet: {}, drop_socket: {}}",
            "steps[0]: a step is one action, not stop_kubelet, drop_socket",
        ),
        (
            "version: v1\nsteps:\n  - fault: {service: register}",
            "steps[0].fault: give one of refuse, late_s and hang",
        ),
        (
            "version: v1\nsteps:\n  - admit: {pod: a, limits: {a/b: 1}, containers: [{name: x}]}",
            "is for a pod with one container",
        ),
        ("version: v1\nsteps:\n  - admit: {pod: a, limits: {a/b: -1}}", "steps[0].admit.limits"),
        ("version: v1\nkubelet: '1.2'\nsteps: []", "unknown version 1.2; known are 1.27"),
        ("version: v1\nsteps:\n  - remove: {pod: nobody}", "no pod default/nobody is on the node"),
        ("version: v1\nsteps: [", "not YAML"),
    ],
)
def test_a_bad_scenario_is_refused_with_its_line(root: Path, text: str, complaint: str) -> None:
    scenario = root / "scenario.yaml"
    scenario.write_text(text)
    done = fake_kubelet(root, scenario)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_without_a_scenario_it_runs_until_it_is_told_to_end(root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "accelet", "fake-kubelet", "--dir", root],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "kubelet-started" in process.stdout.readline()
    process.terminate()
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(10) == 0
    assert "kubelet-stopped" in rest


async def test_the_outcomes_of_a_scenario_are_the_same_whatever_the_seed(root: Path, devices: Path) -> None:
    scenario = read_scenario(ROOT / "examples/scenarios/first-pods.yaml")
    outcomes = []
    for seed in (1, 2):
        folder = root / str(seed)
        (folder / "device-plugins").mkdir(parents=True)
        async with (
            FakeKubelet(folder, seed=seed) as kubelet,
            running(SamplePlugin(folder / "device-plugins", devices)),
        ):
            assert await play(scenario, FakeTarget(kubelet), kubelet.trace) == []
            outcomes.append(comparable(kubelet.trace))
    assert outcomes[0] == outcomes[1]
