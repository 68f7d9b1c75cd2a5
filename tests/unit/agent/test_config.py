"""The configuration: what it means, every mistake at once, and documents that are true."""

import json
import re
from pathlib import Path

import click
import jsonschema
import pytest
import yaml

from accelet.accelerators.intel.match import CardMatch
from accelet.accelerators.intel.monitoring import MonitoringSettings
from accelet.agent.config import DEFAULT_CONFIG, AgentConfig, ResourceConfig, parse_config
from accelet.agent.configschema import make_schema
from accelet.cli.agent import command
from accelet.cli.demo import DEMO_NODE
from accelet.runtime.settings import SettingsError

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/configuration.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)


def mistakes(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse_config(text, "config.yaml")
    return [str(problem) for problem in caught.value.problems]


def names(config: AgentConfig) -> list[str]:
    return [resource.name for resource in config.resources]


def test_default_serves_every_accelerator_under_its_vendors_name() -> None:
    assert names(parse_config(DEFAULT_CONFIG, "x")) == [
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "google.com/tpu",
    ]
    assert EXAMPLES[0] == DEFAULT_CONFIG


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: str(EXAMPLES.index(text)))
def test_documented_example_is_taken_and_fits_the_schema(text: str) -> None:
    assert parse_config(text, "example").resources
    jsonschema.validate(yaml.safe_load(text), make_schema())


def test_demo_node_is_taken_and_fits_the_schema() -> None:
    text = DEMO_NODE.read_text()
    assert parse_config(text, "demo").resources
    jsonschema.validate(yaml.safe_load(text), make_schema())


def test_checked_in_schema_is_current() -> None:
    assert json.loads((ROOT / "docs/config.schema.json").read_text()) == json.loads(json.dumps(make_schema()))


def test_generic_device_plugins_block_and_monitoring_become_resources() -> None:
    assert names(parse_config(EXAMPLES[6], "x")) == ["example.com/fuse", "squat.ai/video", "squat.ai/serial"]
    assert names(parse_config(EXAMPLES[1], "x"))[-1] == "gpu.intel.com/monitoring"


@pytest.mark.parametrize(
    ("entries", "matches"),
    [
        (
            """\
- {name: a.b/x, backend: intel-gpu, match: {driver: [xe]}}
- {name: a.b/d, backend: intel-gpu, match: {driver: [i915], kind: discrete}}
- {name: a.b/t, backend: tpu}""",
            (CardMatch(driver=("xe",)), CardMatch(driver=("i915",), kind="discrete")),
        ),
        ("- {name: a.b/t, backend: tpu}", ()),
    ],
    ids=["cards that are served", "no GPUs are served"],
)
def test_monitoring_shows_the_cards_that_the_resources_match(
    entries: str, matches: tuple[CardMatch, ...]
) -> None:
    config = parse_config(f"version: v1\nmonitoring: split\nresources:\n{entries}\n", "x")
    shown = [each.settings for each in config.resources if isinstance(each.settings, MonitoringSettings)]
    assert shown == [MonitoringSettings(driver=driver, match=matches) for driver in ("i915", "xe")]


def test_all_mistakes_are_reported_at_once_with_their_lines() -> None:
    text = """\
version: v1
resources:
- name: gpu.intel.com/i915
  backend: simulated
  shares: 0
  cards:
  - {pci: 0000-03-00.0, nodes: [{path: /dev/null}], tiles: 2}
- {name: a.b/fuse, backend: file, paths: [/dev/fuse]}
- {name: a.b/fuse, backend: files, paths: [/dev/fuse]}
- {name: a.b/fuse, backend: files, paths: [/dev/null]}
- {name: a.b/null, backend: files, paths: [dev/null]}
monitorin: x
"""
    assert mistakes(text) == [
        "config.yaml:5: resources[0].shares: must be int >= 1, not '0'",
        (
            "config.yaml:8: resources[1].backend: must be one of amd-gpu, files, intel-gpu, "
            "intel-gpu-monitoring, nvidia-gpu, simulated, tpu"
        ),
        "config.yaml:9: resources[2].name: resources[1] has this name already",
        "config.yaml:10: resources[3].name: resources[1] has this name already",
        (
            "config.yaml:11: resources[4].paths[0]: must be an absolute path or glob on the host, "
            "as /dev/video*, not 'dev/null'"
        ),
        "config.yaml:12: monitorin: is not a setting; did you mean monitoring?",
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "resources:\n- {name: a.b/c, backend: fils}\n- {name: a.b/c, backend: tpu, x: 1}",
            "config.yaml:4: resources[1].name: resources[0] has this name already",
        ),
        (
            "domain: a.b\nresources:\n- {name: a.b/c, backend: tpu}\ndevices:\n- {name: c}",
            "config.yaml:6: devices[0].name: resources[0] has this name already",
        ),
        (
            "monitoring: single\nresources:\n- {name: gpu.intel.com/monitoring, backend: tpu}",
            "config.yaml:2: monitoring.name: resources[0] has this name already",
        ),
    ],
    ids=["among other mistakes", "devices", "monitoring"],
)
def test_repeated_name_is_reported_whatever_else_is_wrong(text: str, mistake: str) -> None:
    assert mistake in mistakes(f"version: v1\n{text}\n")


def test_two_resources_that_match_the_same_card_are_a_contradiction() -> None:
    text = """\
version: v1
resources:
- {name: a.b/all, backend: intel-gpu}
- {name: a.b/xe, backend: intel-gpu, match: {driver: [xe]}}
"""
    (problem,) = mistakes(text)
    assert problem.startswith(
        "config.yaml:4: resources[1]: a.b/xe and a.b/all (resources[0]) match the same hardware"
    )


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("gpu", "a domain"),
        ("kubernetes.io/gpu", "kubernetes.io"),
        ("requests.a/gpu", "requests."),
        ("Gpu.intel.com/x", "lower-case"),
        ("gpu.intel.com/-x", "letters"),
        (f"gpu.intel.com/{'x' * 64}", "63"),
    ],
)
def test_name_that_a_kubelet_would_refuse_is_refused_here(name: str, word: str) -> None:
    (problem,) = mistakes(f"version: v1\nresources: [{{name: {name}, backend: files, paths: [/dev/fuse]}}]\n")
    assert word in problem


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "[]", "version: v1\nresources: 7\n", "a: [", "\0", "version: v1\n- x\n"]
)
def test_file_that_is_no_configuration_is_refused_in_a_sentence(text: str) -> None:
    assert all(problem.startswith("config.yaml:") for problem in mistakes(text))


FOLLOWING = "resources: [{name: a.b/c, backend: intel-gpu, assignment: annotations}]\n"


def test_cards_are_told_where_it_is_asked_for() -> None:
    place = "/etc/features.d/gpu.txt"
    config = parse_config(f"version: v1\npublish_cards: true\nnfd_features: {place}\n{FOLLOWING}", "x")
    assert (config.publish_cards, config.nfd_features) == (True, place)
    config = parse_config(f"version: v1\nnfd_features: null\n{FOLLOWING}", "x")
    assert (config.publish_cards, config.nfd_features) == (False, None)


@pytest.mark.parametrize("resources", ["", "resources: [{name: a.b/c, backend: intel-gpu}]\n"])
def test_telling_cards_that_nothing_can_be_assigned_of_is_a_misunderstanding(resources: str) -> None:
    assert mistakes(f"version: v1\npublish_cards: true\nnfd_features: /a/b\n{resources}") == [
        "config.yaml:2: publish_cards: means nothing without a resource with assignment: annotations",
        "config.yaml:3: nfd_features: means nothing without a resource with assignment: annotations",
    ]
    parse_config(f"version: v1\npublish_cards: false\n{resources}", "x")


@pytest.mark.parametrize("path", ["gpu.txt", "/features.d/", "/features.d/.gpu.txt", "/", "''"])
def test_feature_file_that_nobody_would_read_is_refused(path: str) -> None:
    (problem,) = mistakes(f"version: v1\n{FOLLOWING}nfd_features: {path}\n")
    assert problem.startswith("config.yaml:3: nfd_features: must be the absolute path of a file on the host")


def test_resource_by_the_name_of_a_published_amount_is_refused() -> None:
    text = """\
version: v1
publish_cards: true
resources:
- {name: gpu.intel.com/i915, backend: intel-gpu, match: {driver: [i915]}, assignment: annotations}
- {name: gpu.intel.com/tiles, backend: intel-gpu, match: {driver: [xe]}, unit: tile}
"""
    assert mistakes(text) == [
        (
            "config.yaml:5: resources[1].name: gpu.intel.com/tiles is an amount that publish_cards keeps; "
            "choose another name"
        )
    ]
    parse_config(text.replace("publish_cards: true", "publish_cards: false"), "x")


@pytest.mark.parametrize("field", ["driver", "device_id"])
def test_match_that_no_card_can_meet_is_refused(field: str) -> None:
    resource = f"{{name: gpu.intel.com/i915, backend: intel-gpu, match: {{{field}: []}}}}"
    text = f"version: v1\nresources:\n- {resource}\n"
    with pytest.raises(SettingsError, match=rf"f:3: resources\[0\]\.match\.{field}: must not be empty"):
        parse_config(text, "f")


def _with_key(line: str) -> ResourceConfig:
    lines = {"shares": "shares: 4", "assignment": "assignment: annotations"} | {line.split(":")[0]: line}
    lines = {"cards": "cards: [{pci: '0000:03:00.0', nodes: [{path: /dev/null}]}]"} | lines
    text = "version: v1\nresources:\n- name: example.com/gpu\n  backend: simulated\n"
    (resource,) = parse_config(text + "".join(f"  {each}\n" for each in lines.values()), "x").resources
    return resource


@pytest.mark.parametrize(
    ("line", "is_rule"),
    [
        ("policy: packed", True),
        ("distinct: true", True),
        ("on_mismatch: lenient", True),
        ("on_missing: refuse", True),
        ("on_unproven: default", True),
        ("on_conflict: refuse", True),
        ("assignment: none", False),
        ("shares: 3", False),
        ("unit: tile", False),
        ("cards: [{pci: '0000:04:00.0', nodes: [{path: /dev/null}]}]", False),
    ],
)
def test_rules_are_what_the_kubelet_is_told_nothing_of(line: str, is_rule: bool) -> None:
    before = _with_key("shares: 4")
    assert _with_key(line) != before
    assert _with_key(line).differs_in_rules_alone(before) is is_rule


def test_document_lists_the_flags_that_there_are() -> None:
    table = DOCUMENT.partition("## Flags and environment")[2]
    listed = {
        flag: set(re.findall(r"`(\w+)`", variables))
        for flag, variables in re.findall(r"^\| `(--[a-z-]+)` \| ([^|]*) \|", table, re.MULTILINE)
    }
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert listed == {
        one.opts[0]: {one.envvar} if isinstance(one.envvar, str) else set(one.envvar or ()) for one in options
    }
