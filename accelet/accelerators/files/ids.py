"""Stable names for devices that are files."""

import hashlib
import re
from collections.abc import Sequence

from accelet.accelerators.device import UnitId

_PLAIN = re.compile(r"[A-Za-z0-9._/]*")
_LONGEST = 48
"""Leaves room for a hash and a share within the 63 characters of an id."""


def name_unit(paths: Sequence[str]) -> UnitId:
    """The unit that consists of these host paths: `/dev/fuse` is `dev-fuse`.

    Where the paths cannot be read back from that (several paths, a `-` or another character that an id
    cannot tell apart, too long) eight hex digits of their hash follow, so that different units never
    have one name.
    """
    first = re.sub(r"[^A-Za-z0-9._]", "-", paths[0].strip("/"))
    if len(paths) == 1 and _PLAIN.fullmatch(paths[0]) and len(first) <= _LONGEST:
        return UnitId(first)
    digest = hashlib.sha256("\0".join(paths).encode(errors="surrogatepass")).hexdigest()
    return UnitId(f"{first[:_LONGEST]}-{digest[:8]}")
