"""Kubernetes quantities, exactly."""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from accelet.kube.errors import QuantityError

Quantity = int | Fraction
"""An exact amount: an int where it is whole, otherwise a Fraction (`500m` is 1/2)."""

_PATTERN = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII)
_SCALES: dict[str, Quantity] = {
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", start=1)},
    **{suffix: 1000**power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": 1024**power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LARGEST_BINARY = 2**63 - 1
_NANO = 10**9


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """The amount that `text` stands for: `1500m` is 3/2, `1Ki` is 1024, `1e3` is 1000.

    The rules are those of Kubernetes 1.36, apimachinery/pkg/api/resource: finer than nano rounds away from
    zero, an amount with a binary suffix is at most 2^63-1. Results are shared, so that the same text in
    thousands of pods is one value.

    Raises:
        QuantityError: `text` is none (`1mi`, `1 Gi`, `1_000`, `NaN`, the empty text).
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(
            f'"{text[:64]}" is no quantity: a number with n, u, m, k, M, G, T, P, E, Ki … Ei or eN'
        )
    sign, digits, suffix, exponent = match.groups()
    amount = Fraction(digits.rstrip(".") if digits.endswith(".") else digits)
    if suffix:
        amount *= _SCALES[suffix]
    elif exponent:
        amount *= Fraction(10) ** int(exponent)
    nanos = ceil(amount * _NANO)
    if suffix and suffix.endswith("i"):
        nanos = min(nanos, _LARGEST_BINARY * _NANO)
    if sign == "-":
        nanos = -nanos
    return nanos // _NANO if nanos % _NANO == 0 else Fraction(nanos, _NANO)
