"""The rest of a set counted anew from all its members, as it is by the book kept up with each change."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelet.control.walltime import believed_until_s
from accelet.provisioner.deciding.view import GATHERING, HELD, RestOfSet, SliceRecord, progress_of


@dataclass(frozen=True)
class Member:
    """Another slice of the set. `is_listed`: the provider's list has its pool."""

    record: SliceRecord
    is_whole: bool = False
    is_wanted: bool = True
    is_listed: bool = False


def sum_up(members: Iterable[Member], now_s: float, hold_s: float) -> RestOfSet:
    """All that decisions look at of these members. Progress after the clock was set back counts for none."""
    every = list(members)
    wanted = [one for one in every if one.is_wanted]
    steps_s = [progress_of(one.record, is_listed=one.is_listed) for one in wanted]
    resting_s = [one.record.retry_s for one in every if one.record.phase == "BackingOff"]
    dry = [one.record.dry_tiers for one in every if one.record.phase != "BackingOff"]
    return RestOfSet(
        known=len(every),
        wanted=len(wanted),
        is_whole=all(one.is_whole and one.record.phase in HELD for one in wanted),
        progress_s=max((one for one in steps_s if one <= believed_until_s(now_s, hold_s)), default=0.0),
        held_tiers=frozenset(one.record.tier for one in wanted if one.record.phase in GATHERING),
        resting_until_s=max(resting_s, default=None),
        dry_tiers=frozenset(tier for tiers in dry for tier in tiers),
        is_unused=all(one.record.unused or one.record.is_lapsed for one in every),
    )
