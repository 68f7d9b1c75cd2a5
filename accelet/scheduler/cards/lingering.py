"""Pods deleted by force whose cards may still be in use: only who saw them go knows of them."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from accelet.kube.objects import ObjectKey
from accelet.scheduler.cards.account import Use

PAGE = "/lingering"
"""Where the scheduler's HTTP port tells of them, to its own pod alone."""


@dataclass(frozen=True, slots=True)
class LingeringPod:
    """A pod that the API server no longer has, and what its containers may hold on its node."""

    namespace: str
    name: str
    uid: str
    node: str
    uses: tuple[Use, ...]

    @property
    def key(self) -> ObjectKey:
        return lingering_key(self.namespace, self.name, self.uid)


def lingering_key(namespace: str, name: str, uid: str) -> ObjectKey:
    """A name for the account that no pod can have: its successor may have the one it had."""
    return namespace, f"{name} {uid}"


def split_key(key: ObjectKey) -> tuple[str, str]:
    """A pod's name, and its UID where it lingers; else an empty text."""
    name, _, uid = key[1].partition(" ")
    return name, uid


def render_lingering(pods: Iterable[LingeringPod]) -> bytes:
    return msgspec.json.encode(list(pods))


def parse_lingering(text: bytes) -> tuple[LingeringPod, ...]:
    """
    Raises:
        ValueError: this is no such list.
    """
    return msgspec.json.decode(text, type=tuple[LingeringPod, ...])
