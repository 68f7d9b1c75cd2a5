"""The driver's record of prepared claims as a document: versioned, with a checksum over its bytes.

A newer version's fields survive being read and written by an older one.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from accelet.dra.errors import StateError
from accelet.dra.pool import Atom
from accelet.dra.preparing.entry import Entry, Phase, PreparedDevice
from accelet.dra.preparing.hold import DeviceHold

LARGEST: Final = 64 * 2**20

_VERSION: Final = b"v1"
_NAME: Final = b"accelet-dra-checkpoint"


class _StoredHold(msgspec.Struct, frozen=True):
    request: str
    pool: str
    device: str
    atoms: list[Atom]
    is_exclusive: bool = True
    share: str | None = None
    amounts: dict[str, int] = {}
    limits: dict[str, int] = {}


class _StoredEntry(msgspec.Struct, frozen=True):
    uid: str
    digest: str
    namespace: str
    name: str
    phase: Phase
    holds: list[_StoredHold]
    answers: list[PreparedDevice]
    cdi: str
    has_environment: bool = False
    boot: str = ""


class _Stored(msgspec.Struct, frozen=True):
    claims: list[msgspec.Raw]


_OTHER_VERSION = re.compile(rb"v(?!1$)[0-9]{1,9}")
_FIELDS = frozenset(_StoredEntry.__struct_fields__)


def render_checkpoint(entries: Iterable[Entry]) -> bytes:
    """The document: a line with the checksum, then JSON."""
    body = msgspec.json.encode({"claims": [_store(entry) for entry in entries]})
    return _head(body) + b"\n" + body + b"\n"


def read_checkpoint(text: bytes) -> tuple[Entry, ...]:
    """The entries of a document.

    Raises:
        StateError: it is not what was written.
    """
    if len(text) > LARGEST:
        raise StateError(f"the record of prepared claims is larger than {LARGEST} bytes")
    head, _, body = text.partition(b"\n")
    body = body.removesuffix(b"\n")
    name, version, *_ = [*head[:128].split(b" "), b""]
    if name == _NAME and _OTHER_VERSION.fullmatch(version):
        raise StateError(
            f"the record of prepared claims is of version {version.decode()}, and this accelet reads "
            f"{_VERSION.decode()}: install the one that wrote it again, or drain the node first"
        )
    if head != _head(body):
        raise StateError("the record of prepared claims is damaged: its checksum is not that of its text")
    try:
        stored = msgspec.json.decode(body, type=_Stored)
        return tuple(_load(raw) for raw in stored.claims)
    except (ValueError, RecursionError) as error:
        raise StateError(f"the record of prepared claims cannot be read: {str(error)[:200]}") from None


def _head(body: bytes) -> bytes:
    return b"%b %b sha256=%b" % (_NAME, _VERSION, hashlib.sha256(body).hexdigest().encode())


def _store(entry: Entry) -> Mapping[str, Any]:
    told = {name: getattr(entry, name) for name in _StoredEntry.__struct_fields__ if name != "holds"}
    holds = [
        {**msgspec.structs.asdict(_stored_hold(hold)), "atoms": sorted(hold.atoms)} for hold in entry.holds
    ]
    return {**dict(entry.rest), **told, "holds": holds}


def _stored_hold(hold: DeviceHold) -> _StoredHold:
    return _StoredHold(
        hold.request,
        hold.pool,
        hold.device,
        sorted(hold.atoms),
        hold.is_exclusive,
        hold.share,
        dict(hold.amounts),
        dict(hold.limits),
    )


def _load(raw: msgspec.Raw) -> Entry:
    wire = msgspec.json.decode(raw, type=_StoredEntry)
    everything = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    holds = tuple(
        DeviceHold(
            one.request,
            one.pool,
            one.device,
            frozenset(one.atoms),
            one.is_exclusive,
            one.share,
            one.amounts,
            one.limits,
        )
        for one in wire.holds
    )
    return Entry(
        wire.uid,
        wire.digest,
        wire.namespace,
        wire.name,
        wire.phase,
        holds,
        tuple(wire.answers),
        wire.cdi,
        wire.has_environment,
        wire.boot,
        tuple((name, msgspec.Raw(bytes(value))) for name, value in everything.items() if name not in _FIELDS),
    )
