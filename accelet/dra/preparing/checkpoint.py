"""The driver's record of prepared claims as a document: versioned, with a checksum over its bytes.

A newer version's fields survive being read and written by an older one.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from accelet.dra.errors import StateError
from accelet.dra.pool import Atom
from accelet.dra.preparing.entry import Entry, Phase, PreparedDevice
from accelet.dra.preparing.hold import DeviceHold

LARGEST: Final = 64 * 2**20

_MAGIC: Final = "accelet-dra-checkpoint v1 sha256="


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


_FIELDS = frozenset(_StoredEntry.__struct_fields__)


def render_checkpoint(entries: Iterable[Entry]) -> bytes:
    """The document: a line with the checksum, then JSON."""
    body = msgspec.json.encode({"claims": [_store(entry) for entry in entries]})
    return f"{_MAGIC}{hashlib.sha256(body).hexdigest()}\n".encode() + body + b"\n"


def read_checkpoint(text: bytes) -> tuple[Entry, ...]:
    """The entries of a document.

    Raises:
        StateError: it is not what was written.
    """
    if len(text) > LARGEST:
        raise StateError(f"the record of prepared claims is larger than {LARGEST} bytes")
    head, _, body = text.partition(b"\n")
    body = body.removesuffix(b"\n")
    if head != f"{_MAGIC}{hashlib.sha256(body).hexdigest()}".encode():
        raise StateError("the record of prepared claims is damaged: its checksum is not that of its text")
    try:
        stored = msgspec.json.decode(body, type=_Stored)
        return tuple(_load(raw) for raw in stored.claims)
    except (ValueError, RecursionError) as error:
        raise StateError(f"the record of prepared claims cannot be read: {str(error)[:200]}") from None


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
