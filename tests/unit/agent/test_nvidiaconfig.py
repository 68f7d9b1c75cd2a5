"""Configuration files of NVIDIA's device plugin: every key is honoured, warned of, or refused by its name."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.agent.config import AgentConfig, parse_config
from accelet.agent.nvidiaconfig import _NvidiaConfig
from accelet.runtime.settings import SettingsError

DOCUMENT = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
SLICED = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]"


def settings_of(config: AgentConfig) -> NvidiaGpuSettings:
    (resource,) = config.resources
    assert isinstance(resource.settings, NvidiaGpuSettings)
    return resource.settings


def refusals(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse_config(text, "f")
    return [str(problem) for problem in caught.value.problems]


def test_a_usual_file_of_nvidias_is_served() -> None:
    text = """
version: v1
flags:
  migStrategy: none
  failOnInitError: true
  nvidiaDriverRoot: /
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: [cdi-cri]
    deviceIDStrategy: uuid
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
"""
    config = parse_config(text, "f")
    (resource,) = config.resources
    assert resource.name == "nvidia.com/gpu.shared"
    assert (resource.rules.policy, resource.rules.is_distinct) == ("balanced", True)
    settings = settings_of(config)
    assert (settings.shares, settings.inject, settings.unit) == (4, "cdi", "gpu")
    assert config.warnings == (
        "flags.failOnInitError: the agent serves what is there, and looks again every few seconds",
        (
            "sharing.timeSlicing.failRequestsGreaterThanOne: a container may have shares of several "
            "GPUs, and not two of one (distinct: true)"
        ),
    )


@pytest.mark.parametrize(
    ("text", "inject", "unit", "shares", "policy"),
    [
        ("flags: {}", "envvar", "gpu", 1, "none"),
        ("flags: {plugin: {deviceListStrategy: envvar}}", "envvar", "gpu", 1, "none"),
        ("flags: {plugin: {deviceListStrategy: cdi-annotations}}", "cdi", "gpu", 1, "none"),
        ("flags: {plugin: {deviceListStrategy: [envvar, cdi-cri]}}", "cdi", "gpu", 1, "none"),
        ("flags: {migStrategy: single}", "cdi", "mig", 1, "none"),
        ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}", "envvar", "gpu", 2, "balanced"),
        (
            SLICED + "}}\nflags: {plugin: {sharedDevicesAllocationPolicy: packed}}",
            "envvar",
            "gpu",
            4,
            "packed",
        ),
        ("resources: {gpus: [{pattern: '*', name: gpu}]}", "envvar", "gpu", 1, "none"),
    ],
)
def test_what_is_honoured(text: str, inject: str, unit: str, shares: int, policy: str) -> None:
    config = parse_config(text, "f")
    settings = settings_of(config)
    assert (settings.inject, settings.unit, settings.shares) == (inject, unit, shares)
    assert config.resources[0].rules.policy == policy
    assert settings.problems() == ()


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("flags: {failOnInitError: false}", "flags.failOnInitError"),
        ("flags: {restartOnDeviceUnhealthy: true}", "flags.restartOnDeviceUnhealthy"),
        ("flags: {mpsRoot: /run/nvidia/mps}", "flags.mpsRoot"),
        ("flags: {nvidiaDriverRoot: /run/nvidia/driver}", "flags.nvidiaDriverRoot"),
        ("flags: {nvidiaDevRoot: /run/nvidia/driver}", "flags.nvidiaDevRoot"),
        ("flags: {useNodeFeatureAPI: true}", "flags.useNodeFeatureAPI"),
        ("flags: {deviceDiscoveryStrategy: nvml}", "flags.deviceDiscoveryStrategy"),
        ("flags: {gfd: {oneshot: true, sleepInterval: 60s}}", "flags.gfd"),
        ("flags: {migStrategy: single}", "flags.migStrategy"),
        ("flags: {plugin: {deviceListStrategy: cdi-annotations}}", "flags.plugin.deviceListStrategy"),
        ("flags: {plugin: {deviceListStrategy: [envvar, cdi-cri]}}", "flags.plugin.deviceListStrategy"),
        ("flags: {plugin: {deviceListStrategy: [envvar, volume-mounts]}}", "flags.plugin.deviceListStrategy"),
        ("flags: {plugin: {passDeviceSpecs: false}}", "flags.plugin.passDeviceSpecs"),
        (
            "flags: {plugin: {passDeviceSpecs: true, deviceListStrategy: cdi-cri}}",
            "flags.plugin.passDeviceSpecs",
        ),
        ("flags: {plugin: {deviceIDStrategy: index}}", "flags.plugin.deviceIDStrategy"),
        ("flags: {plugin: {cdiAnnotationPrefix: cdi.k8s.io/}}", "flags.plugin.cdiAnnotationPrefix"),
        ("flags: {plugin: {nvidiaCTKPath: /usr/bin/nvidia-ctk}}", "flags.plugin.nvidiaCTKPath"),
        ("flags: {plugin: {containerDriverRoot: /driver-root}}", "flags.plugin.containerDriverRoot"),
        (
            "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}",
            "flags.plugin.sharedDevicesAllocationPolicy",
        ),
        ("resources: {gpus: [{pattern: '*', name: gpu}]}", "resources"),
        ("resources: {mig: [{pattern: 1g*, name: small}]}", "resources"),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, rename: a}]}}",
            "sharing.timeSlicing.resources[0].rename",
        ),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0, GPU-1]}]}}",
            "sharing.timeSlicing.resources[0].devices",
        ),
        ("sharing: {timeSlicing: {renameByDefault: true}}", "sharing.timeSlicing.renameByDefault"),
        (
            "sharing: {timeSlicing: {failRequestsGreaterThanOne: true}}",
            "sharing.timeSlicing.failRequestsGreaterThanOne",
        ),
        ("sharing: {mps: {}}", "sharing.mps"),
        ("imex: {required: true}", "imex.required"),
        ("health: {disabled: true, ignoredXIDs: [13], criticalXIDs: all}", "health"),
    ],
)
def test_what_means_nothing_here_is_warned_of(text: str, warned: str) -> None:
    (warning,) = parse_config(text, "f").warnings
    assert warning.startswith(f"{warned}: ")
    assert len(warning.split()) > 3


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("flags: {migStrategy: mixed}", "flags.migStrategy: mixed cannot be followed: no file says"),
        ("flags: {migStrategy: double}", "flags.migStrategy: must be one of none, single, mixed"),
        ("flags: {deviceDiscoveryStrategy: tegra}", "flags.deviceDiscoveryStrategy: tegra is not served"),
        ("flags: {deviceDiscoveryStrategy: vfio}", "flags.deviceDiscoveryStrategy: vfio is not served"),
        ("flags: {gdrcopyEnabled: true}", "flags.gdrcopyEnabled: is not served"),
        ("flags: {gdsEnabled: true}", "flags.gdsEnabled: is not served"),
        ("flags: {mofedEnabled: true}", "flags.mofedEnabled: is not served"),
        (
            "flags: {plugin: {deviceListStrategy: volume-mounts}}",
            "flags.plugin.deviceListStrategy: volume-mounts is not served",
        ),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}", "sharing.mps: MPS is not served"),
        (
            "sharing: {timeSlicing: {resources: [{name: mig-1g.5gb, replicas: 2}]}}",
            "sharing.timeSlicing.resources[0].name: only nvidia.com/gpu can be replicated here",
        ),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}, {name: gpu, replicas: 3}]}}",
            "sharing.timeSlicing.resources: has nvidia.com/gpu twice",
        ),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 0}]}}",
            "sharing.timeSlicing.resources[0].replicas: must be int >= 1",
        ),
        ("imex: {channelIDs: [0]}", "imex.channelIDs: IMEX channels are not served"),
        ("flags: {migStrateg: none}", "flags.migStrateg: is not a setting; did you mean migStrategy?"),
        ("flags: {}\nmonitoring: single", "monitoring: is not a setting"),
        ("flags: {}\nversion: v2", "version: must be one of v1"),
        ("flags: [1]", "flags: must be a mapping"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_its_name(text: str, refused: str) -> None:
    (said,) = refusals(text)
    assert said.partition(": ")[2].startswith(refused)


def test_a_file_of_our_own_is_read_as_one() -> None:
    own = "version: v1\nresources:\n- {name: nvidia.com/gpu, backend: nvidia-gpu}\n"
    assert parse_config(own, "f").warnings == ()
    assert "flagz: is not a setting" in refusals(own + "flagz: {}\n")[0]


def keys_of(kind: Any) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for inner in getattr(field.type, "__args__", (field.type,)):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from keys_of(inner)


def test_every_key_is_documented() -> None:
    section = DOCUMENT.partition("## NVIDIA's file")[2].partition("\n## ")[0]
    assert set(keys_of(_NvidiaConfig)) <= set(re.findall(r"[A-Za-z]+", section))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 20_000)
    | st.sampled_from(["v1", "gpu", "all", "cdi-cri", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(set(keys_of(_NvidiaConfig)))), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["version", "flags", "resources", "sharing", "imex", "health"]), values)
)
def test_any_file_is_served_or_refused_with_reasons(content: dict[str, object]) -> None:
    with suppress(SettingsError):
        config = parse_config(yaml.safe_dump(content), "f")
        assert all(resource.settings.problems() == () for resource in config.resources)
