"""A pool as its provider tells of it, and what can become of a request to make or delete one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, Literal

PoolState = Literal["creating", "running", "busy", "failed", "deleting"]
"""`running`: its machines are there or come. `busy`: the provider works on it, and it will be back."""


ORIGINAL_MARK: Final = "tpu-provisioner."
"""How the mark of a pool begins that the original tpu-provisioner has made; its name follows."""


class Trouble(Enum):
    """Why a provider did not do it, as far as that changes what is done next."""

    NO_CAPACITY = "no capacity"
    QUOTA = "quota"
    RESERVATION = "reservation"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    ADDRESSES = "addresses"
    BUSY = "busy"
    """It works on something else; later the same may be asked again."""
    EXISTS = "exists"
    GONE = "gone"
    UNKNOWN = "unknown"
    """No answer: it may have been done."""

    @property
    def passes(self) -> bool:
        """Whether it says nothing of the slice itself, and soon passes."""
        return self is Trouble.BUSY

    @property
    def may_pass(self) -> bool:
        """Whether it says nothing of the place either: rights and addresses are given and taken away.

        Only where it lasts is another place tried, which may cost more.
        """
        return self in (Trouble.FORBIDDEN, Trouble.ADDRESSES)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, as a kind and as the provider's sentence."""

    trouble: Trouble
    sentence: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """What a pool of the original tpu-provisioner was made for, and of; an empty `topology` is not told."""

    namespace: str
    job: str
    machine_type: str
    hosts: int
    topology: str = ""


@dataclass(frozen=True, slots=True)
class NodePool:
    """One pool. `mark` is the UID of its SliceRequest, or a word of its own for one with an `original`."""

    name: str
    mark: str
    state: PoolState
    fingerprint: str = ""
    tier: str = ""
    zone: str = ""
    failure: Failure | None = None
    original: Original | None = None


@dataclass(frozen=True)
class PoolList:
    """All pools of ours at one moment, asked for at `asked_s`, and the names that others have taken.

    `originals` are among the foreign ones, and may be adopted.
    """

    pools: tuple[NodePool, ...]
    asked_s: float
    foreign: frozenset[str] = frozenset()
    originals: tuple[NodePool, ...] = ()

    @cached_property
    def by_mark(self) -> Mapping[str, Sequence[NodePool]]:
        """The pools of each request."""
        found: defaultdict[str, list[NodePool]] = defaultdict(list)
        for pool in self.pools:
            found[pool.mark].append(pool)
        return dict(found)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all pools of ours."""
        return frozenset(pool.name for pool in self.pools)

    @cached_property
    def originals_by_job(self) -> Mapping[tuple[str, str], Sequence[NodePool]]:
        """The original's pools by the namespace and name of the Job that each was made for."""
        found: defaultdict[tuple[str, str], list[NodePool]] = defaultdict(list)
        for pool in self.originals:
            if pool.original is not None:
                found[pool.original.namespace, pool.original.job].append(pool)
        return dict(found)
