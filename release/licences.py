"""Under which licences the packages of others come, and whether each is one that we may give on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
    }
)
"""SPDX names. MPL-2.0 binds its own files alone, which are given on unchanged."""

REVIEWED: Final[Mapping[str, str]] = {"pyasn1-modules": "BSD-2-Clause"}
"""Packages whose metadata says too little: what a person read in their licence files."""

_BEFORE_SPDX: Final[Mapping[str, str]] = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
}
"""What packages say that do not say it in SPDX."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One package of others, and what it says of its licence; `texts` are its licence files."""

    name: str
    version: str
    licence: str
    texts: tuple[str, ...] = ()


def spdx_licence(name: str, expression: str | None, text: str | None, classifiers: Iterable[str]) -> str:
    """The licence of a package as an SPDX expression; empty where its metadata does not tell."""
    if name in REVIEWED:
        return REVIEWED[name]
    if expression:
        return expression
    said = [_BEFORE_SPDX.get(one, one) for one in (text or "", *classifiers)]
    return next((one for one in said if one in ALLOWED), text or "")


def explain_refusal(notice: Notice) -> str | None:
    """Why a package cannot be given on with ours, None where it can.

    An expression is a choice of several (OR) or all of several (AND); one that nests both is for a person.
    """
    if not notice.licence:
        return f"{notice.name} does not say its licence; read it and note it in release/licences.py"
    if "(" in notice.licence or (" OR " in notice.licence and " AND " in notice.licence):
        return f"{notice.name}: {notice.licence!r} is for a person to read; note it in release/licences.py"
    if any(one in ALLOWED for one in notice.licence.split(" OR ")):
        return None
    refused = sorted(set(notice.licence.split(" AND ")) - ALLOWED)
    return f"{notice.name} is under {', '.join(refused)}, which is not allowed" if refused else None


def problems(notices: Sequence[Notice], locked: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is wrong with notices, given by names the versions that are locked."""
    told = {notice.name: notice.version for notice in notices}
    for name in sorted(told.keys() | locked.keys()):
        if name not in told:
            yield f"{name} {' or '.join(locked[name])} is locked and has no notice"
        elif told[name] not in (versions := locked.get(name, ["none"])):
            yield f"the notice is of {name} {told[name]}, and locked is {' or '.join(versions)}"
    for notice in notices:
        if refusal := explain_refusal(notice):
            yield refusal
        if not any(text.strip() for text in notice.texts):
            yield f"{notice.name} comes without the text of its licence"
