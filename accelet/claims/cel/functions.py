"""The functions of expressions, by name and by whether they have a target.

Of CEL's standard library, strings 2 and sets, and of Kubernetes' lists, regex, quantity and semver
(k8s.io/apiserver 1.36, pkg/cel/library). Not served: bytes, times, types, `format`, URLs, addresses, sorting.
"""

from collections.abc import Mapping
from typing import Final

from accelet.claims.cel import amounts, conversions, lists, operators, optionals, texts
from accelet.claims.cel.signatures import Function

FUNCTIONS: Final[Mapping[str, Function]] = {
    "size": operators.size,
    **operators.OPERATORS,
    **conversions.FUNCTIONS,
    **texts.FUNCTIONS,
    **lists.FUNCTIONS,
    **amounts.FUNCTIONS,
    **optionals.FUNCTIONS,
}
"""Those without a target, operators among them."""

METHODS: Final[Mapping[str, Function]] = {
    "size": operators.size,
    **texts.METHODS,
    **lists.METHODS,
    **amounts.METHODS,
    **optionals.METHODS,
}

NAMESPACES: Final = frozenset({"sets", "optional"})
"""Names before a dot that belong to a function's own name."""
