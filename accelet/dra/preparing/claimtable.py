"""All claims that are prepared on a node, found by what they hold and are called without a look at each."""

from collections.abc import Collection, Iterable, Iterator, MutableMapping
from copy import copy
from typing import Literal, Self

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.entry import Entry, EntryKey
from accelet.dra.preparing.hold import DeviceHold

_Mark = tuple[Literal["unit", "device", "uid", "name"], str, str]


class ClaimTable(MutableMapping[EntryKey, Entry]):
    """Entries by their keys. Finding some of them takes no longer the more there are.

    A copy knows what was changed since it was made, so that telling this takes no longer either.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[EntryKey, Entry] = {}
        self._marked: dict[_Mark, tuple[EntryKey, ...]] = {}
        self._origin: ClaimTable | None = None
        self._touched: set[EntryKey] = set()
        for entry in entries:
            self[entry.key] = entry

    def __getitem__(self, key: EntryKey) -> Entry:
        return self._entries[key]

    def __setitem__(self, key: EntryKey, entry: Entry) -> None:
        assert key == entry.key
        known, marks = self._entries.get(key), _marks(entry)
        if known is None or _marks(known) != marks:
            self.pop(key, None)
            for mark in marks:
                self._marked[mark] = (*self._marked.get(mark, ()), key)
        self._entries[key] = entry
        self._touched.add(key)

    def __delitem__(self, key: EntryKey) -> None:
        for mark in _marks(self._entries.pop(key)):
            left = tuple(one for one in self._marked[mark] if one != key)
            if left:
                self._marked[mark] = left
            else:
                del self._marked[mark]
        self._touched.add(key)

    def __iter__(self) -> Iterator[EntryKey]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def copy(self) -> Self:
        """The same claims, which later changes of these leave alone."""
        copied = copy(self)
        own = {"_entries": dict(self._entries), "_marked": dict(self._marked)}
        copied.__dict__.update(own, _origin=self, _touched=set())
        self._origin = None  # or each would keep all before it
        return copied

    def changes_from(self, before: "ClaimTable") -> tuple[list[Entry], list[EntryKey]]:
        """The entries that are others than before, or are new, and the keys of those that have gone."""
        keys = self._touched if before is self._origin else self._entries.keys() | before.keys()
        put = [self._entries[key] for key in keys if key in self and self[key] != before.get(key)]
        return put, [key for key in keys if key not in self and key in before]

    def of_hardware(self, holds: Iterable[DeviceHold], units: Collection[UnitId]) -> Collection[Entry]:
        """Those that hold any of these devices, of their hardware, or of these units."""
        devices = {hold.device for hold in holds}
        all_units = {unit for hold in holds for unit, _ in hold.atoms} | set(units)
        marks: list[_Mark] = [("unit", unit, "") for unit in all_units]
        return self._find([*marks, *(("device", device, "") for device in devices)])

    def of_claim(self, uid: str) -> Collection[Entry]:
        """The allocations of one claim."""
        return self._find([("uid", uid, "")])

    def of_names(self, namespace: str, names: Iterable[str]) -> Collection[Entry]:
        """Those of these claims of a namespace."""
        return self._find([("name", namespace, name) for name in names])

    def not_of(self, units: Collection[UnitId]) -> Collection[Entry]:
        """Those that hold anything of a unit that is none of these."""
        there = set(units)
        return self._find([mark for mark in self._marked if mark[0] == "unit" and mark[1] not in there])

    def _find(self, marks: Iterable[_Mark]) -> Collection[Entry]:
        keys = sorted({key for mark in marks for key in self._marked.get(mark, ())})
        return [self._entries[key] for key in keys]


def _marks(entry: Entry) -> set[_Mark]:
    marks: set[_Mark] = {("uid", entry.uid, ""), ("name", entry.namespace, entry.name)}
    for hold in entry.holds:
        marks.add(("device", hold.device, ""))
        marks |= {("unit", unit, "") for unit, _ in hold.atoms}
    return marks
