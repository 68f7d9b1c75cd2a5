"""What to do where an assignment cannot simply be followed."""

from dataclasses import dataclass
from typing import Literal

OnMismatch = Literal["strict", "lenient"]
OnMissing = Literal["default", "refuse"]
OnUnproven = Literal["refuse", "default"]
OnConflict = Literal["report", "refuse"]


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of one resource that follows assignments.

    `on_mismatch`: the kubelet chose other devices than those assigned. `strict` refuses; `lenient` gives
    what it chose, whole, and says so.
    `on_missing`: nothing is assigned to the container. `default` gives whole devices; or `refuse`.
    `on_unproven`: it cannot be told whose the call is. `refuse`, or `default` as above.
    `on_conflict`: another live pod holds a tile of these by its assignment. `report` gives them and says so.
    """

    on_mismatch: OnMismatch = "strict"
    on_missing: OnMissing = "default"
    on_unproven: OnUnproven = "refuse"
    on_conflict: OnConflict = "report"
