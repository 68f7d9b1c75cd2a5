"""Whether the limits leave room for one more slice, or for the whole of a set."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from accelet.provisioner.deciding.places import Counted, RoomUse, SetPlaces

BEGINNING: Final = frozenset(("Pending", "Failing"))
"""Phases from which a new pool may be asked for; in all others it does not matter whether there is room."""

_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Limits:
    """How much there may be at one time, None for any amount."""

    slices: int | None = None
    chips: int | None = None

    def allow(self, slices: int, chips: int) -> bool:
        return (self.slices is None or slices <= self.slices) and (self.chips is None or chips <= self.chips)

    def __str__(self) -> str:
        parts = [f"{self.slices} slices"] if self.slices is not None else []
        parts += [f"{self.chips} chips"] if self.chips is not None else []
        return f"at most {' and '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Turns:
    """What is judged beside the limits of all: those of each namespace, and whose turn it is.

    An older set that waits has room kept for it for `reserve_s`, then not for as long, and so on: what is
    kept for a set that does not get all it needs is others' meanwhile. 0: nothing is kept.
    """

    each: Limits = Limits()
    reserve_s: float = 0.0
    now_s: float = 0.0

    def is_on(self, since_s: float) -> bool:
        """Whether room is kept now for a set that waits since then."""
        waited_s = max(0.0, self.now_s - since_s)
        return self.reserve_s > 0 and int(waited_s // self.reserve_s) % 2 == 0


_NO_TURNS: Final = Turns()


class RoomBook:
    """What all requests use, kept up with each change: to judge one costs the same in a set of any size."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], SetPlaces] = {}
        self._set_of: dict[str, tuple[str, str]] = {}
        self._all = RoomUse()
        self._of_namespace: dict[str, RoomUse] = {}
        self._waiting: dict[str, dict[tuple[str, str], float]] = {}
        """By namespace the sets of which nothing has begun for want of room, and since when they wait."""

    def set(self, counted: Counted) -> None:
        """Takes a request over as it is now."""
        if self._set_of.get(counted.uid) != counted.set_key:
            self.remove(counted.uid)
        members = self._sets.setdefault(counted.set_key, SetPlaces())
        before = members.use
        members.set(counted)
        self._note(counted.set_key, before)
        self._set_of[counted.uid] = counted.set_key

    def remove(self, uid: str) -> None:
        key = self._set_of.pop(uid, None)
        if key is None:
            return
        members = self._sets[key]
        before = members.use
        members.remove(uid)
        self._note(key, before)
        if not members:
            del self._sets[key]

    def _note(self, key: tuple[str, str], before: RoomUse) -> None:
        """Counts a set anew that has changed."""
        namespace, members = key[0], self._sets[key]
        more = members.use - before
        self._all += more
        of_namespace = self._of_namespace.pop(namespace, RoomUse()) + more
        if of_namespace != RoomUse():
            self._of_namespace[namespace] = of_namespace
        since_s, waiting = members.waits_since_s, self._waiting.setdefault(namespace, {})
        waiting.pop(key, None)
        if since_s is not None:
            waiting[key] = since_s
        if not waiting:
            del self._waiting[namespace]

    def judge(
        self, wanted: Counted, limits: Limits, parked: Iterable[Counted] = (), turns: Turns = _NO_TURNS
    ) -> str | None:
        """Why `wanted` may have no new pool now; None if it may.

        A set counts as a whole from its first pool on, so that none is begun that could not be ended. It is
        judged as if it took over the pools of `parked`. The sentence says nothing of what others use: with
        each of their changes all that wait would be written anew.
        """
        places = self._set(wanted).places_with(wanted)
        if not limits.allow(places.slices, places.chips):
            return f"{places} in all are more than there ever may be: {limits}"
        if not turns.each.allow(places.slices, places.chips):
            return f"{places} in all are more than a namespace ever may have: {turns.each}"
        more = self._more_with(wanted) - self._freed_by(parked)
        with_it, of_namespace = self._all + more, self._of(wanted.set_key[0]) + more
        if not turns.each.allow(of_namespace.slices, of_namespace.chips):
            return f"waits for room: its set has {places}, and a namespace may have {turns.each}"
        if not limits.allow(with_it.slices, with_it.chips):
            return f"waits for room: its set has {places}, and there may be {limits} in all"
        return self._await_turn(wanted, limits, turns, with_it, of_namespace)

    def _await_turn(
        self, wanted: Counted, limits: Limits, turns: Turns, with_it: RoomUse, of_namespace: RoomUse
    ) -> str | None:
        """For which older set a set that would fit keeps away; None if it takes no room that is kept.

        Of each namespace the set counts that waits longest, and not one that its namespace's own limit keeps
        waiting: nobody is held up by the limits of others.
        """
        if self._set(wanted).has_active:
            return None  # it has begun
        own = self._waits_s(wanted.set_key, turns.now_s)
        older = [one for one in self._oldest(limits, turns.each) if one < own and turns.is_on(one[0])]
        for _, key in sorted(older):
            need = self._sets[key].need()
            rest = self._of(key[0]) + need
            if key[0] == wanted.set_key[0]:
                kept = of_namespace + need
                if not turns.each.allow(kept.slices, kept.chips):
                    return _say_first(key)
            elif not turns.each.allow(rest.slices, rest.chips):
                continue
            kept = with_it + need
            return None if limits.allow(kept.slices, kept.chips) else _say_first(key)
        return None

    def _oldest(self, limits: Limits, each: Limits) -> Iterator[tuple[float, tuple[str, str]]]:
        """Of each namespace the set that waits longest, of those that may ever have room, and since when."""
        for waiting in self._waiting.values():
            for since_s, key in sorted((since_s, key) for key, since_s in waiting.items()):
                need = self._sets[key].need()
                if limits.allow(need.slices, need.chips) and each.allow(need.slices, need.chips):
                    yield since_s, key
                    break

    def _waits_s(self, key: tuple[str, str], now_s: float) -> tuple[float, tuple[str, str]]:
        return self._waiting.get(key[0], {}).get(key, now_s), key

    def _set(self, wanted: Counted) -> SetPlaces:
        return self._sets.get(wanted.set_key) or SetPlaces()

    def _of(self, namespace: str) -> RoomUse:
        return self._of_namespace.get(namespace, RoomUse())

    def lacks(self, wanted: Counted, limits: Limits) -> RoomUse:
        """What there is too much of for `wanted` now; nothing where it never fits."""
        places, with_it = self._set(wanted).places_with(wanted), self._all + self._more_with(wanted)
        if not limits.allow(places.slices, places.chips):
            return RoomUse()
        slices = 0 if limits.slices is None else with_it.slices - limits.slices
        chips = 0 if limits.chips is None else with_it.chips - limits.chips
        return RoomUse(max(0, slices), max(0, chips))

    def _more_with(self, wanted: Counted) -> RoomUse:
        """How much more there would be with one more pool for `wanted`."""
        own = self._set(wanted)
        return own.use_with(wanted) - own.use

    def _freed_by(self, parked: Iterable[Counted]) -> RoomUse:
        """What parked slices use, which are of other sets than the one that takes them."""
        going: dict[tuple[str, str], list[str]] = {}
        for one in parked:
            going.setdefault(one.set_key, []).append(one.uid)
        freed = RoomUse()
        for key, uids in going.items():
            members = self._sets.get(key) or SetPlaces()
            freed += members.use - members.use_without(uids)
        return freed


def _say_first(key: tuple[str, str]) -> str:
    return f"waits for its turn: room is kept for the set {key[1][:_SHOWN]} of {key[0]}, which waits longer"
