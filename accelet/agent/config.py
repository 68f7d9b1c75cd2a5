"""The agent's configuration: what is served under which names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Literal

import msgspec
import yaml

from accelet.accelerators import BACKENDS
from accelet.accelerators.backend import Backend
from accelet.accelerators.files.backend import GenericDevice
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.monitoring import MonitoringMode, monitoring_resources
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.sensors.settings import SensorSettings
from accelet.accelerators.settings import Settings, overlap
from accelet.assignments.nodecards import capacity_names
from accelet.dra.names import explain_not_for_dra
from accelet.kubelet.resourcename import explain_bad_resource_name
from accelet.runtime.settings import Mistake, Reader, SettingsError, fields_of, join
from resourcemanager.giving.policies import OnConflict, OnMismatch, OnMissing, OnUnproven, Policies
from resourcemanager.giving.preference import Policy
from resourcemanager.manager import ResourceRules

Serve = Literal["device-plugin", "dra"]
"""How pods come by a resource: the kubelet's device plugin API, or Dynamic Resource Allocation."""

Unhealthy = Literal["keep", "evict"]
"""What becomes of pods whose claims hold a device that is ill or gone."""


class ResourceEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every entry of `resources` has, whatever its back-end; the rest is the back-end's own."""

    name: str
    backend: str
    policy: Policy = "none"
    distinct: bool = False
    assignment: Literal["none", "annotations"] = "none"
    serve: Serve = "device-plugin"
    unhealthy: Unhealthy = "keep"
    on_mismatch: OnMismatch = "strict"
    on_missing: OnMissing = "default"
    on_unproven: OnUnproven = "refuse"
    on_conflict: OnConflict = "report"

    def following(self) -> Policies | None:
        """The policies, where the resource follows what schedulers write on pods."""
        if self.assignment == "none":
            return None
        return Policies(self.on_mismatch, self.on_missing, self.on_unproven, self.on_conflict)


@dataclass(frozen=True, slots=True)
class ResourceConfig:
    """One resource: its rules, and its back-end's settings."""

    rules: ResourceRules
    settings: Settings
    serve: Serve = "device-plugin"
    unhealthy: Unhealthy = "keep"

    @property
    def name(self) -> str:
        return self.rules.resource

    def differs_in_rules_alone(self, other: "ResourceConfig") -> bool:
        """Whether `other` serves the same devices in the same way, and gives them out by other rules at most.

        Whether assignments are followed is no such rule: it decides who answers the kubelet.
        """
        is_same_way = (self.rules.following is None) == (other.rules.following is None)
        return is_same_way and replace(self, rules=other.rules) == other

    def backend(self, cache: ScanCache = uncached) -> Backend:
        return self.settings.backend(cache)


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Everything that is served, in the order of the file, and where its cards are told.

    `sensors` None: nobody looks at what cards do. `warnings` name what is written and means nothing.
    """

    resources: tuple[ResourceConfig, ...]
    publish_cards: bool = False
    nfd_features: str | None = None
    sensors: SensorSettings | None = None
    health_events: bool = False
    require_policies: bool = False
    warnings: tuple[str, ...] = ()

    def served_by(self, serve: Serve) -> tuple[ResourceConfig, ...]:
        """The resources that pods come by in this way."""
        return tuple(resource for resource in self.resources if resource.serve == serve)


FeatureFilePath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^/(?:[^/]+/)*[^./][^/]*$",
        description="the absolute path of a file on the host whose name does not begin with a dot",
    ),
]
"""Files that begin with a dot are none to Node Feature Discovery."""


DEFAULT_DOMAIN = "squat.ai"
"""Where generic-device-plugin's devices are if nothing else is said."""


class ConfigHead(msgspec.Struct, frozen=True, kw_only=True):
    """The file without its `resources`, each of which is read by its back-end's settings.

    `monitoring` adds Intel's monitoring resources under their usual names; they show what the other resources
    match. `devices` is the block of generic-device-plugin as it stands; its resources are named
    `domain/name`. `publish_cards` has the agent tell the cards of resources that follow assignments on its
    Node, `nfd_features` in a feature file of Node Feature Discovery at this path on the host. With `sensors`
    the agent looks at what Intel's cards do; with `health_events` it says on its Node which devices fall ill
    and are well again.
    `require_policies`: no assignment is followed before the policies have been seen in force that keep others
    from writing one.
    """

    version: Literal["v1"]
    monitoring: MonitoringMode = "none"
    domain: str = DEFAULT_DOMAIN
    devices: tuple[GenericDevice, ...] = ()
    publish_cards: bool = False
    nfd_features: FeatureFilePath | None = None
    sensors: SensorSettings | None = None
    health_events: bool = False
    require_policies: bool = False


DEFAULT_CONFIG = """\
version: v1
resources:
  - {name: gpu.intel.com/i915, backend: intel-gpu, match: {driver: [i915]}}
  - {name: gpu.intel.com/xe, backend: intel-gpu, match: {driver: [xe]}}
  - {name: google.com/tpu, backend: tpu}
"""
"""What is served where there is no file: whatever is found, under its vendor's names."""


def parse_config(text: str, file: str) -> AgentConfig:
    """The configuration that `text`, the content of `file`, describes.

    Raises:
        SettingsError: with every mistake.
    """
    reader = Reader(file)
    root = reader.parse(text)
    if root is None:
        problem = Mistake(file, 1, "", "the file is empty; it needs at least 'version: v1' and 'resources'")
        raise SettingsError(reader.problems or [problem])
    config = _read_nvidias(reader, root) if _is_of_another_plugin(root) else None
    config = _read_file(reader, root) if config is None else config
    if reader.problems:
        raise SettingsError(sorted(reader.problems, key=lambda problem: problem.line))
    return config


@dataclass(frozen=True, slots=True)
class _Placed:
    """A resource, and where in the file it stands."""

    node: yaml.Node
    where: str
    config: ResourceConfig


def _read_nvidias(reader: Reader, root: yaml.Node) -> AgentConfig | None:
    """What the file says where it is one of NVIDIA's device plugin; None where it is not."""
    from accelet.agent.nvidiaconfig import is_nvidias, read_nvidias  # noqa: PLC0415  for such files alone

    if not is_nvidias(root):
        return None
    said = read_nvidias(reader, root)
    if said is None:
        return AgentConfig(())
    rules = ResourceRules(said.name, said.policy, said.is_distinct)
    return AgentConfig((ResourceConfig(rules, said.settings),), warnings=said.warnings)


def _is_of_another_plugin(root: yaml.Node) -> bool:
    """A quick look at the keys: most files are ours, and are read without what reads others."""
    keys = {key.value for key, _ in root.value} if isinstance(root, yaml.MappingNode) else set()
    return not keys <= {*fields_of(ConfigHead), "resources"} or any(
        key.value == "resources" and isinstance(value, yaml.MappingNode)
        for key, value in (root.value if isinstance(root, yaml.MappingNode) else ())
    )


def _read_file(reader: Reader, root: yaml.Node) -> AgentConfig:
    entries = reader.entries(root, "", [*fields_of(ConfigHead), "resources"])
    if entries is None:
        return AgentConfig(())
    head = reader.read_struct(_only(root, ConfigHead), ConfigHead, "")
    placed: list[_Placed] = []
    if "resources" in entries:
        placed += _read_resources(reader, entries["resources"][1])
    if head is not None:
        if "devices" in entries:
            placed += _place_devices(head, entries["devices"][1])
        if "monitoring" in entries:
            placed += _place_monitoring(head, placed, entries["monitoring"][1])
    _report_names(reader, placed)
    _report_repeated_names(reader, _named(entries, placed))
    _report_contradictions(reader, placed)
    configs = tuple(one.config for one in placed)
    if head is None:
        return AgentConfig(configs)
    _report_nothing_to_tell(reader, entries, head, configs)
    if head.publish_cards:
        _report_published_names(reader, placed)
    return AgentConfig(
        configs,
        head.publish_cards,
        head.nfd_features,
        head.sensors,
        head.health_events,
        head.require_policies,
    )


def _report_nothing_to_tell(
    reader: Reader,
    entries: Mapping[str, tuple[yaml.Node, yaml.Node]],
    head: ConfigHead,
    configs: Sequence[ResourceConfig],
) -> None:
    """Other resources are no scheduler's business: there would be no cards to tell, and nothing to forge."""
    if reader.problems or any(config.rules.following is not None for config in configs):
        return
    wishes = {
        "publish_cards": head.publish_cards,
        "nfd_features": head.nfd_features,
        "require_policies": head.require_policies,
    }
    for key, is_wanted in wishes.items():
        if is_wanted:
            reader.report(
                entries[key][0], key, "means nothing without a resource with assignment: annotations"
            )


def _report_published_names(reader: Reader, placed: Sequence[_Placed]) -> None:
    """The kubelet would set an amount of this name to the number of devices, and the agent to another."""
    taken = {
        name
        for one in placed
        if one.config.rules.following is not None
        for name in capacity_names(one.config.name)
    }
    for one in placed:
        if one.config.name in taken:
            sentence = f"{one.config.name} is an amount that publish_cards keeps; choose another name"
            reader.report(one.node, join(one.where, "name"), sentence)


def _place_devices(head: ConfigHead, node: yaml.Node) -> list[_Placed]:
    placed = []
    for i, (item, device) in enumerate(zip(node.value, head.devices, strict=True)):
        config = ResourceConfig(ResourceRules(f"{head.domain}/{device.name}"), device.settings())
        placed.append(_Placed(item, f"devices[{i}]", config))
    return placed


def _place_monitoring(head: ConfigHead, others: Iterable[_Placed], node: yaml.Node) -> list[_Placed]:
    matches = [
        one.config.settings.match for one in others if isinstance(one.config.settings, IntelGpuSettings)
    ]
    return [
        _Placed(node, "monitoring", ResourceConfig(ResourceRules(name), settings))
        for name, settings in monitoring_resources(head.monitoring, matches)
    ]


def _read_resources(reader: Reader, node: yaml.Node) -> list[_Placed]:
    if not isinstance(node, yaml.SequenceNode):
        reader.report(node, "resources", "must be a list")
        return []
    placed = []
    for i, item in enumerate(node.value):
        where = f"resources[{i}]"
        config = _read_resource(reader, item, where)
        if config is not None:
            placed.append(_Placed(item, where, config))
    return placed


def _read_resource(reader: Reader, node: yaml.Node, where: str) -> ResourceConfig | None:
    kind = _settings_type(reader, node, where)
    if kind is None:
        return None
    reader.entries(node, where, [*fields_of(ResourceEntry), *fields_of(kind)])
    entry = reader.read_struct(_only(node, ResourceEntry), ResourceEntry, where)
    settings = reader.read_struct(_only(node, kind), kind, where)
    if entry is None or settings is None:
        return None
    if entry.assignment == "none":
        _report_idle_policies(reader, node, where)
    if entry.serve == "dra":
        _report_meaningless_with_dra(reader, node, where, entry, settings)
    elif entry.unhealthy != "keep":
        keys = {key.value: key for key, _ in node.value}
        sentence = "means nothing without serve: dra; device plugins leave pods alone"
        reader.report(keys["unhealthy"], join(where, "unhealthy"), sentence)
    rules = ResourceRules(entry.name, entry.policy, entry.distinct, entry.following())
    return ResourceConfig(rules, settings, entry.serve, entry.unhealthy)


def _report_meaningless_with_dra(
    reader: Reader, node: yaml.Node, where: str, entry: ResourceEntry, settings: Settings
) -> None:
    """What only the device plugin API asks for, and what DRA has no form for."""
    keys = {key.value: key for key, _ in node.value}
    for name in ("policy", "distinct", "assignment"):
        if getattr(entry, name) != getattr(ResourceEntry(name="", backend=""), name):
            reader.report(keys[name], join(where, name), "means nothing with serve: dra; claims say it")
    if reason := explain_not_for_dra(settings):
        reader.report(keys["serve"], join(where, "serve"), reason)


def _report_idle_policies(reader: Reader, node: yaml.Node, where: str) -> None:
    """A policy that nothing would ever ask for is a misunderstanding."""
    for key, _ in node.value:
        if key.value.startswith("on_"):
            reader.report(key, join(where, key.value), "means nothing without assignment: annotations")


def _settings_type(reader: Reader, node: yaml.Node, where: str) -> type[Settings] | None:
    """The settings type of the back-end that an entry names."""
    if not isinstance(node, yaml.MappingNode):
        reader.report(node, where, "must be a mapping with name and backend")
        return None
    named = [value for key, value in node.value if key.value == "backend"]
    if not named:
        reader.report(node, where, f"backend is missing; there are {', '.join(BACKENDS)}")
        return None
    kind = BACKENDS.get(named[0].value) if isinstance(named[0], yaml.ScalarNode) else None
    if kind is None:
        reader.report(named[0], join(where, "backend"), f"must be one of {', '.join(BACKENDS)}")
    return kind


def _only(node: yaml.Node, kind: type[msgspec.Struct]) -> yaml.Node:
    """The part of a mapping that `kind` knows; the rest is another type's."""
    pairs = [(key, value) for key, value in node.value if key.value in fields_of(kind)]
    return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)


def _report_names(reader: Reader, placed: list[_Placed]) -> None:
    for one in placed:
        if reason := explain_bad_resource_name(one.config.name):
            reader.report(one.node, join(one.where, "name"), f"{one.config.name} {reason}")


@dataclass(frozen=True, slots=True)
class _Named:
    """A name that the file gives a resource, and where, whatever else is wrong with it."""

    name: str
    node: yaml.Node
    where: str


def _named(entries: Mapping[str, tuple[yaml.Node, yaml.Node]], placed: Sequence[_Placed]) -> list[_Named]:
    """The names in the file's order of kinds: `resources`, `devices`, what `monitoring` adds."""
    given = {key: value for key, (_, value) in entries.items()}
    domain = given["domain"].value if "domain" in given else DEFAULT_DOMAIN
    return [
        *_names_in(given.get("resources"), "resources", ""),
        *_names_in(given.get("devices"), "devices", f"{domain}/"),
        *(_Named(one.config.name, one.node, one.where) for one in placed if one.where == "monitoring"),
    ]


def _names_in(node: yaml.Node | None, where: str, prefix: str) -> Iterator[_Named]:
    items = node.value if isinstance(node, yaml.SequenceNode) else ()
    for i, item in enumerate(items):
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            if key.value == "name" and isinstance(value, yaml.ScalarNode):
                yield _Named(prefix + value.value, item, f"{where}[{i}]")


def _report_repeated_names(reader: Reader, named: Sequence[_Named]) -> None:
    first: dict[str, _Named] = {}
    for one in named:
        known = first.setdefault(one.name, one)
        if known.where != one.where:
            reader.report(one.node, join(one.where, "name"), f"{known.where} has this name already")


def _report_contradictions(reader: Reader, placed: list[_Placed]) -> None:
    for first, second in combinations(placed, 2):
        one, other = first.config, second.config
        if one.name != other.name and overlap(one.settings, other.settings):
            reader.report(
                second.node,
                second.where,
                f"{other.name} and {one.name} ({first.where}) match the same hardware; "
                "make their matches exclude each other",
            )
