"""`dra_manager_state`: what a kubelet writes down of the claims it knows."""

import os
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from accelet.fakekubelet.claims.cache import ClaimInfo, PreparedDevice

_API_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"


class KubeletStartError(Exception):
    """A kubelet does not start over what it finds. The text says what an administrator has to do."""


class _Device(msgspec.Struct, frozen=True, rename="pascal"):
    pool_name: str
    device_name: str
    share_id: str | None = msgspec.field(name="ShareID")
    request_names: list[str] | None
    cdi_device_ids: list[str] | None = msgspec.field(name="CDIDeviceIDs")


class _Driver(msgspec.Struct, frozen=True, rename="pascal"):
    devices: list[_Device] | None


class _Claim(msgspec.Struct, frozen=True, rename="pascal"):
    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str
    namespace: str
    pod_uids: dict[str, dict[str, str]] = msgspec.field(name="PodUIDs")
    driver_state: dict[str, _Driver]


class _Data(msgspec.Struct, frozen=True):
    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    claims: list[_Claim] | None = msgspec.field(name="ClaimInfoStateList")


class _Checkpoint(msgspec.Struct, frozen=True, rename="pascal"):
    data: str
    checksum: int


def write_state(path: Path, infos: Iterable[ClaimInfo]) -> None:
    """Writes the claims under another name and renames it into place.

    Raises:
        OSError: it could not be written.
    """
    _write(path, [_claim(info) for info in infos])


def _write(path: Path, claims: list[_Claim] | None) -> None:
    text = msgspec.json.encode(_Data("DRACheckpoint", _API_VERSION, claims)).decode()
    checkpoint = msgspec.json.encode(_Checkpoint(text, zlib.crc32(text.encode())))
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(checkpoint)
        Path(temporary).rename(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_state(path: Path) -> list[ClaimInfo]:
    """The claims a former kubelet wrote down, none of them prepared as far as this one knows.

    Without a file one is written that says so, as by the real kubelet.

    Raises:
        KubeletStartError: the file is there and makes no sense.
    """
    failed = f"GetOrCreate() on checkpoint state: failed to get checkpoint {path.name}: "
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        _write(path, None)
        return []
    try:
        checkpoint = msgspec.json.decode(content, type=_Checkpoint)
        if zlib.crc32(checkpoint.data.encode()) != checkpoint.checksum:
            raise KubeletStartError(failed + "checkpoint is corrupted")
        data = msgspec.json.decode(checkpoint.data, type=_Data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise KubeletStartError(f"{failed}{error}") from error
    return [_info(claim) for claim in data.claims or ()]


def _claim(info: ClaimInfo) -> _Claim:
    drivers = {
        driver: _Driver([_device(device) for device in devices] or None)
        for driver, devices in info.devices.items()
    }
    return _Claim(info.uid, info.name, info.namespace, {uid: {} for uid in sorted(info.pods)}, drivers)


def _device(device: PreparedDevice) -> _Device:
    return _Device(
        device.pool, device.device, device.share, list(device.requests) or None, list(device.cdi_ids) or None
    )


def _info(claim: _Claim) -> ClaimInfo:
    devices = {
        driver: tuple(
            PreparedDevice(
                each.pool_name,
                each.device_name,
                tuple(each.request_names or ()),
                tuple(each.cdi_device_ids or ()),
                each.share_id,
            )
            for each in state.devices or ()
        )
        for driver, state in claim.driver_state.items()
    }
    return ClaimInfo(claim.namespace, claim.claim_name, claim.claim_uid, devices, set(claim.pod_uids))
