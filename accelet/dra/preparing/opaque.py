"""What claims and classes may tell the driver of GPUs; anything else is refused."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from accelet.accelerators.intel.edits import HIERARCHY
from accelet.dra.errors import ClaimError
from accelet.dra.names import GPU_DRIVER
from accelet.dra.preparing.claim import OpaqueConfig, Result
from accelet.runtime.foreign.nesting import decode_nested

LONGEST = 10 * 1024


class GpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`deviceHierarchy`: how processes see cards of several tiles (ZE_FLAT_DEVICE_HIERARCHY)."""

    api_version: Literal["gpu.accelet.dev/v1alpha1"]
    kind: Literal["GpuConfig"]
    device_hierarchy: Literal["FLAT", "COMBINED", "COMPOSITE"] | None = None


_READ = msgspec.json.Decoder(GpuConfig)


def environment_of(
    configs: Sequence[OpaqueConfig], driver: str, results: Sequence[Result]
) -> Mapping[str, Mapping[str, str]]:
    """What the parameters set for each request; a claim's own go over its class's.

    Raises:
        ClaimError: parameters this driver does not know.
    """
    ordered = sorted(configs, key=lambda config: not config.is_from_class)
    told: dict[str, Mapping[str, str]] = {result.request: {} for result in results}
    for config in ordered:
        environment = _read(config, driver)
        for result in results:
            if not config.requests or not result.names.isdisjoint(config.requests):
                told[result.request] = {**told[result.request], **environment}
    return told


def _read(config: OpaqueConfig, driver: str) -> Mapping[str, str]:
    where = "the class's" if config.is_from_class else "the claim's"
    if driver != GPU_DRIVER:
        raise ClaimError(f"{where} configuration names parameters for {driver}, which takes none")
    if len(config.parameters) > LONGEST:
        raise ClaimError(f"{where} configuration for {driver} is longer than {LONGEST} bytes")
    try:
        parameters = decode_nested(_READ.decode, config.parameters)
    except ValueError as error:  # msgspec's errors, and text that is not UTF-8
        raise ClaimError(f"{where} configuration for {driver} is refused: {str(error)[:200]}") from None
    return {} if parameters.device_hierarchy is None else {HIERARCHY: parameters.device_hierarchy}
