"""What `accelet explain` prints with --json."""

from dataclasses import dataclass

from accelet.dra.preparing.explaining import ClaimExplanation
from resourcemanager.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Explained:
    """The whole answer; `notes` say which source was silent."""

    pod: str
    uid: str
    containers: tuple[Explanation, ...]
    notes: tuple[str, ...] = ()
    claims: tuple[ClaimExplanation, ...] = ()
