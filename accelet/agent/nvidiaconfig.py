"""The configuration file of NVIDIA's device plugin, read in the place of our own.

The form is that of its `api/config/v1` (v0.20). Every key is honoured, ignored with a warning, or refused by
its name; NVIDIA's plugin drops what it does not know. What it takes from its command line is not seen here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
import yaml
from msgspec import Meta

from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.runtime.settings import Contradiction, Reader
from resourcemanager.giving.preference import Policy

GPU: Final = "nvidia.com/gpu"
_DOMAIN: Final = "nvidia.com/"
_OWN_KEYS: Final = frozenset({"flags", "sharing", "imex", "health"})
_MIG: Final = (
    "no file says the profiles of MIG instances; write a resource with unit: mig and match.instance for each "
    "(docs/backends.md, MIG instances)"
)

Strategy = Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]


class _Plugin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass_device_specs: bool | None = None
    device_list_strategy: tuple[Strategy, ...] | Strategy | None = None
    device_id_strategy: Literal["uuid", "index"] | None = msgspec.field(default=None, name="deviceIDStrategy")
    cdi_annotation_prefix: str | None = None
    nvidia_ctk_path: str | None = msgspec.field(default=None, name="nvidiaCTKPath")
    container_driver_root: str | None = None
    shared_devices_allocation_policy: Literal["distributed", "packed"] | None = None

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        found = self.device_list_strategy or ("envvar",)
        return (found,) if isinstance(found, str) else found

    def problems(self) -> tuple[Contradiction, ...]:
        if set(self.strategies) == {"volume-mounts"}:
            sentence = "volume-mounts is not served: containers get GPUs by cdi-cri or envvar"
            return (Contradiction(("deviceListStrategy",), sentence),)
        return ()


class _Gfd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    oneshot: bool | None = None
    no_timestamp: bool | None = None
    sleep_interval: str | int | None = None
    output_file: str | None = None
    machine_type_file: str | None = None


class _Flags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    mig_strategy: Literal["none", "single", "mixed"] | None = None
    fail_on_init_error: bool | None = None
    restart_on_device_unhealthy: bool | None = None
    mps_root: str | None = None
    nvidia_driver_root: str | None = None
    nvidia_dev_root: str | None = None
    gdrcopy_enabled: bool | None = None
    gds_enabled: bool | None = None
    mofed_enabled: bool | None = None
    use_node_feature_api: bool | None = msgspec.field(default=None, name="useNodeFeatureAPI")
    device_discovery_strategy: Literal["auto", "nvml", "tegra", "vfio"] | None = None
    plugin: _Plugin | None = None
    gfd: _Gfd | None = None

    def problems(self) -> tuple[Contradiction, ...]:
        return tuple(self._find_problems())

    def _find_problems(self) -> Iterator[Contradiction]:
        if self.mig_strategy == "mixed":
            yield Contradiction(("migStrategy",), f"mixed cannot be followed: {_MIG}")
        if self.device_discovery_strategy in ("tegra", "vfio"):
            sentence = f"{self.device_discovery_strategy} is not served: NVIDIA's driver has to list the GPUs"
            yield Contradiction(("deviceDiscoveryStrategy",), sentence)
        for name, is_on in (
            ("gdrcopyEnabled", self.gdrcopy_enabled),
            ("gdsEnabled", self.gds_enabled),
            ("mofedEnabled", self.mofed_enabled),
        ):
            if is_on:
                yield Contradiction((name,), "is not served: set it to false, or keep NVIDIA's plugin here")


class _NamedPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: str
    name: str


class _Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gpus: tuple[_NamedPattern, ...] = ()
    mig: tuple[_NamedPattern, ...] = ()


class _Replicated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    replicas: Annotated[int, Meta(ge=1, le=10_000)]
    rename: str | None = None
    devices: tuple[int | str, ...] | int | str = "all"

    def problems(self) -> tuple[Contradiction, ...]:
        if self.full_name == GPU:
            return ()
        return (Contradiction(("name",), f"only {GPU} can be replicated here: {_MIG}"),)

    @property
    def full_name(self) -> str:
        return self.name if self.name.startswith(_DOMAIN) else _DOMAIN + self.name


class _TimeSlicing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False
    resources: tuple[_Replicated, ...] = ()

    def problems(self) -> tuple[Contradiction, ...]:
        if len(self.resources) > len({one.full_name for one in self.resources}):
            return (Contradiction(("resources",), f"has {GPU} twice"),)
        return ()


class _Sharing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    time_slicing: _TimeSlicing | None = None
    mps: _TimeSlicing | None = None

    def problems(self) -> tuple[Contradiction, ...]:
        if self.mps is None or not self.mps.resources:
            return ()
        sentence = "MPS is not served: use timeSlicing, or keep NVIDIA's plugin on these nodes"
        return (Contradiction(("mps",), sentence),)


class _Imex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    channels: tuple[int, ...] = msgspec.field(default=(), name="channelIDs")
    required: bool = False

    def problems(self) -> tuple[Contradiction, ...]:
        if not self.channels:
            return ()
        return (Contradiction(("channelIDs",), "IMEX channels are not served: NVIDIA's DRA driver has them"),)


class _Health(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    disabled: bool = False
    event_types: tuple[str, ...] = msgspec.field(default=(), name="eventTypes")
    ignored_xids: tuple[int, ...] = msgspec.field(default=(), name="ignoredXIDs")
    critical_xids: tuple[int, ...] | Literal["all"] | None = msgspec.field(default=None, name="criticalXIDs")


class _NvidiaConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal["v1"] = "v1"
    flags: _Flags = msgspec.field(default_factory=_Flags)
    resources: _Resources = msgspec.field(default_factory=_Resources)
    sharing: _Sharing = msgspec.field(default_factory=_Sharing)
    imex: _Imex = msgspec.field(default_factory=_Imex)
    health: _Health | None = None


@dataclass(frozen=True, slots=True)
class NvidiaResource:
    """What the file says in our words, and a sentence for each of its keys that means nothing here."""

    name: str
    settings: NvidiaGpuSettings
    policy: Policy
    is_distinct: bool
    warnings: tuple[str, ...]


def is_nvidias(root: yaml.Node) -> bool:
    """Whether a file is one of NVIDIA's: it has a key that ours never has, or `resources` with keys."""
    if not isinstance(root, yaml.MappingNode):
        return False
    return any(
        key.value in _OWN_KEYS or (key.value == "resources" and isinstance(value, yaml.MappingNode))
        for key, value in root.value
    )


def read_nvidias(reader: Reader, root: yaml.Node) -> NvidiaResource | None:
    """The one resource that the file describes; None where `reader` has a mistake."""
    said = reader.read_struct(root, _NvidiaConfig, "")
    return None if said is None else translate(said)


def translate(said: _NvidiaConfig) -> NvidiaResource:
    """What a file without a mistake means here."""
    plugin = said.flags.plugin or _Plugin()
    slicing = said.sharing.time_slicing or _TimeSlicing()
    shares = slicing.resources[0].replicas if slicing.resources else 1
    is_packed = plugin.shared_devices_allocation_policy == "packed"
    return NvidiaResource(
        name=f"{GPU}.shared" if shares > 1 and slicing.rename_by_default else GPU,
        settings=NvidiaGpuSettings(
            unit="mig" if said.flags.mig_strategy == "single" else "gpu",
            shares=shares,
            inject="cdi" if _is_by_cdi(said) else "envvar",
        ),
        policy="none" if shares == 1 else "packed" if is_packed else "balanced",
        is_distinct=slicing.fail_requests_greater_than_one and shares > 1,
        warnings=tuple(f"{key}: {sentence}" for key, sentence in _warn(said, plugin, slicing, shares)),
    )


def _is_by_cdi(said: _NvidiaConfig) -> bool:
    """Instances go by CDI alone, whatever the strategies."""
    plugin = said.flags.plugin or _Plugin()
    return said.flags.mig_strategy == "single" or any(one.startswith("cdi-") for one in plugin.strategies)


def _warn(
    said: _NvidiaConfig, plugin: _Plugin, slicing: _TimeSlicing, shares: int
) -> Iterator[tuple[str, str]]:
    yield from _warn_of_flags(said.flags)
    yield from _warn_of_strategies(said, plugin)
    for name, value, sentence in (
        ("deviceIDStrategy", plugin.device_id_strategy == "index", "ids are UUIDs here, whatever it says"),
        ("cdiAnnotationPrefix", plugin.cdi_annotation_prefix is not None, "CDI names go by no annotation"),
        ("nvidiaCTKPath", plugin.nvidia_ctk_path is not None, "accelet writes no CDI specification"),
        ("containerDriverRoot", plugin.container_driver_root is not None, "no library of the driver is used"),
        (
            "sharedDevicesAllocationPolicy",
            plugin.shared_devices_allocation_policy is not None and shares == 1,
            "means nothing, as nothing is shared",
        ),
    ):
        if value:
            yield f"flags.plugin.{name}", sentence
    if said.resources.gpus or said.resources.mig:
        yield "resources", "its patterns are ignored, as by NVIDIA's plugin: write resources of our own form"
    yield from _warn_of_slicing(slicing, shares)
    if said.sharing.mps is not None:
        yield "sharing.mps", "means nothing without resources"
    if said.imex.required:
        yield "imex.required", "means nothing without channelIDs"
    if said.health is not None:
        yield "health", "XIDs are not read; a GPU is unhealthy when it is gone from the PCI bus"


def _warn_of_flags(flags: _Flags) -> Iterator[tuple[str, str]]:
    given: Mapping[str, tuple[bool, str]] = {
        "failOnInitError": (
            flags.fail_on_init_error is not None,
            "the agent serves what is there, and looks again every few seconds",
        ),
        "restartOnDeviceUnhealthy": (
            flags.restart_on_device_unhealthy is not None,
            "devices recover without a restart",
        ),
        "mpsRoot": (flags.mps_root is not None, "MPS is not served"),
        "nvidiaDriverRoot": (
            flags.nvidia_driver_root not in (None, "", "/"),
            "the host's CDI specification says where the driver is",
        ),
        "nvidiaDevRoot": (
            flags.nvidia_dev_root not in (None, "", "/"),
            "device nodes are looked for in the host's /dev",
        ),
        "useNodeFeatureAPI": (flags.use_node_feature_api is not None, "accelet makes no labels of GPUs"),
        "deviceDiscoveryStrategy": (
            flags.device_discovery_strategy == "nvml",
            "GPUs are found by files, not by NVML",
        ),
        "gfd": (flags.gfd is not None, "gpu-feature-discovery reads it; it can go on running beside accelet"),
    }
    for name, (is_given, sentence) in given.items():
        if is_given:
            yield f"flags.{name}", sentence
    if flags.mig_strategy == "single":
        yield (
            "flags.migStrategy",
            "GPUs without MIG instances are not served; write unit: gpu for their nodes",
        )


def _warn_of_strategies(said: _NvidiaConfig, plugin: _Plugin) -> Iterator[tuple[str, str]]:
    by_cdi, strategies = _is_by_cdi(said), plugin.strategies
    ignored: Sequence[str] = [
        one for one in strategies if (not one.startswith("cdi-") if by_cdi else one != "envvar")
    ]
    if ignored and plugin.device_list_strategy is not None:
        how = "CDI names" if by_cdi else "NVIDIA_VISIBLE_DEVICES and device nodes"
        sentence = f"containers get GPUs by {how} alone, not also by {' and '.join(ignored)}"
        yield "flags.plugin.deviceListStrategy", sentence
    if "cdi-annotations" in strategies:
        yield "flags.plugin.deviceListStrategy", "CDI names go by the CRI's own field, as with cdi-cri"
    if plugin.pass_device_specs is not None and plugin.pass_device_specs == by_cdi:
        sentence = (
            "CDI names bring the device nodes" if by_cdi else "device nodes are always passed with envvar"
        )
        yield "flags.plugin.passDeviceSpecs", sentence


def _warn_of_slicing(slicing: _TimeSlicing, shares: int) -> Iterator[tuple[str, str]]:
    for number, one in enumerate(slicing.resources):
        where = f"sharing.timeSlicing.resources[{number}]"
        if one.rename is not None:
            yield f"{where}.rename", "is ignored, as by NVIDIA's plugin; renameByDefault is followed"
        if one.devices != "all":
            yield f"{where}.devices", "is ignored, as by NVIDIA's plugin: all GPUs are shared"
    if slicing.fail_requests_greater_than_one:
        sentence = "a container may have shares of several GPUs, and not two of one (distinct: true)"
        if shares == 1:
            sentence = "means nothing, as nothing is shared"
        yield "sharing.timeSlicing.failRequestsGreaterThanOne", sentence
    if slicing.rename_by_default and shares == 1:
        yield "sharing.timeSlicing.renameByDefault", "means nothing, as nothing is shared"
