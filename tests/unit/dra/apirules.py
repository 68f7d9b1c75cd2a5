"""What Kubernetes takes as a pool of ResourceSlices, for tests of what is published: the rules that
`accelet conformance --dra` has for any driver, and what they cannot see of a publisher's own numbers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from accelet.fakekubelet.conformance.dra.sliceforms import parse_spec
from accelet.fakekubelet.conformance.dra.slicerules import pool_faults

_QUANTITY = re.compile(r"(0|[1-9][0-9]*)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G)?")
_FACTORS: dict[str, int] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9} | {
    f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")
}


def number(text: str) -> int:
    """The amount of a quantity of the plain forms that a publisher writes."""
    match = _QUANTITY.fullmatch(text)
    assert match is not None, text
    amount = int(match[1]) * _FACTORS[match[2] or ""]
    assert amount < 2**63, f"{text} would be cut to {2**63 - 1}, which no step divides"
    return amount


def faults(slices: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with a whole pool."""
    specs = [parse_spec(one["spec"]) for one in slices]
    pools = {(spec.driver, spec.pool.name, spec.node_name, spec.pool.generation) for spec in specs}
    for one in slices:
        for text in _amounts(one["spec"]):
            number(text)
    return [
        *(["slices of different pools or generations"] if len(pools) != 1 else []),
        *("an empty list" for one in slices if _has_empty_list(one["spec"])),
        *(fault.text for fault in pool_faults(specs)),
    ]


def _has_empty_list(spec: Mapping[str, Any]) -> bool:
    return [] in (spec.get("devices"), spec.get("sharedCounters"))


def _amounts(value: object, key: str = "") -> list[str]:
    """The texts of all quantities in a spec: of `value`, `default`, `min`, `max`, `step`, `validValues`."""
    if isinstance(value, Mapping):
        inside = [each for name, one in value.items() for each in _amounts(one, name)]
        return [] if key in ("attributes", "taints") else inside
    if isinstance(value, list):
        return [each for one in value for each in _amounts(one, key)]
    is_amount = key in ("value", "default", "min", "max", "step", "validValues")
    return [value] if is_amount and isinstance(value, str) else []
