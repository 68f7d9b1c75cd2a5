"""The driver's record of prepared claims as a document: versioned, with checksums over its bytes.

It begins with all claims of one moment, in two lines. Of version v2 each further line is a change since then,
so that a claim costs the same however many there are. Version v1 has no such lines; versions of accelet that
know it alone refuse the other in a sentence. Fields of a newer accelet survive being read and written.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from accelet.dra.errors import StateError
from accelet.dra.pool import Atom
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry, Phase, PreparedDevice
from accelet.dra.preparing.hold import DeviceHold

LARGEST: Final = 64 * 2**20

_V1: Final = b"v1"
_V2: Final = b"v2"
_NAME: Final = b"accelet-dra-checkpoint"

Fields = tuple[tuple[str, msgspec.Raw], ...]
"""Names and values of JSON."""


@dataclass(frozen=True)
class RecordContent:
    """What a document says.

    `rest` are its fields that another version wrote. The first `begin_bytes` of it are the claims of one
    moment. Changes can be added to it if `is_open`. `cut_bytes` at its end are a change whose write was cut
    short: nobody was told of it.
    """

    entries: ClaimTable = field(default_factory=ClaimTable)
    rest: Fields = ()
    begin_bytes: int = 0
    is_open: bool = False
    cut_bytes: int = 0


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


class _StoredChange(msgspec.Struct, frozen=True):
    put: list[msgspec.Raw] = []
    drop: list[tuple[str, str]] = []


_OTHER_VERSION = re.compile(rb"v(?![12]$)[0-9]{1,9}")
_FIELDS = frozenset(_StoredEntry.__struct_fields__)
_CHANGE: Final = b"change"


def render_checkpoint(entries: Iterable[Entry], rest: Fields = (), *, is_open: bool = False) -> bytes:
    """The document without changes: a line with the checksum, then JSON. Changes may follow if it is open."""
    body = msgspec.json.encode({**dict(rest), "claims": [_store(entry) for entry in entries]})
    return _head(_V2 if is_open else _V1, body) + b"\n" + body + b"\n"


def render_change(put: Iterable[Entry], drop: Iterable[tuple[str, str]]) -> bytes:
    """The line by which these entries are set in an open document, and those of these keys go."""
    body = msgspec.json.encode({"put": [_store(entry) for entry in put], "drop": list(drop)})
    return b"%b %b %b\n" % (_CHANGE, _sum(body), body)


def read_checkpoint(text: bytes) -> tuple[Entry, ...]:
    """The entries of a document.

    Raises:
        StateError: it is not what was written.
    """
    return tuple(read_record(text).entries.values())


def read_record(text: bytes) -> RecordContent:
    """What a document says.

    Raises:
        StateError: it is not what was written.
    """
    if len(text) > LARGEST:
        raise StateError(f"the record of prepared claims is larger than {LARGEST} bytes")
    head, _, rest = text.partition(b"\n")
    name, version, *_ = [*head[:128].split(b" "), b""]
    if name == _NAME and _OTHER_VERSION.fullmatch(version):
        raise StateError(
            f"the record of prepared claims is of version {version.decode()}, and this accelet reads "
            f"{_V1.decode()} and {_V2.decode()}: install the one that wrote it again, or drain the node first"
        )
    is_open = version == _V2
    body, _, changes = rest.partition(b"\n") if is_open else (rest.removesuffix(b"\n"), b"", b"")
    if head != _head(version, body):
        raise _damaged()
    try:
        stored = msgspec.json.decode(body, type=_Stored)
        others = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        entries = ClaimTable(map(_load, stored.claims))
        cut_bytes = _follow_changes(entries, changes)
    except (ValueError, RecursionError) as error:
        raise StateError(f"the record of prepared claims cannot be read: {str(error)[:200]}") from None
    return RecordContent(
        entries,
        tuple((name, _kept(value)) for name, value in others.items() if name != "claims"),
        len(text) - len(changes),
        is_open and not cut_bytes and text.endswith(b"\n"),
        cut_bytes,
    )


def _follow_changes(entries: ClaimTable, changes: bytes) -> int:
    """Makes the changes; how many bytes at the end are one that was cut short.

    What was not on disk when the machine lost its power is missing, or zero bytes.
    """
    *lines, last = changes.split(b"\n")
    for number, line in enumerate(lines):
        word, _, rest = line.partition(b" ")
        checksum, _, body = rest.partition(b" ")
        if word != _CHANGE or checksum != _sum(body):
            if number == len(lines) - 1 and not last and b"\0" in line:
                return len(line) + 1
            raise _damaged()
        change = msgspec.json.decode(body, type=_StoredChange)
        for key in change.drop:
            entries.pop(key, None)
        for entry in map(_load, change.put):
            entries[entry.key] = entry
    return len(last)


def _damaged() -> StateError:
    return StateError("the record of prepared claims is damaged: its checksum is not that of its text")


def _head(version: bytes, body: bytes) -> bytes:
    # Of v1 the checksum is over the text alone; so no changed byte makes one version of the other.
    return b"%b %b %b" % (_NAME, version, _sum(body if version == _V1 else version + body))


def _sum(body: bytes) -> bytes:
    return b"sha256=%b" % hashlib.sha256(body).hexdigest().encode()


def _kept(value: msgspec.Raw) -> msgspec.Raw:
    """The value alone, on one line: as it was read it keeps the whole document."""
    text = bytes(value)
    return msgspec.Raw(msgspec.json.format(text, indent=-1) if b"\n" in text else text)


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
        tuple((name, _kept(value)) for name, value in everything.items() if name not in _FIELDS),
    )
