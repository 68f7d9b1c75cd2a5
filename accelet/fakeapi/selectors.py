"""Label and field selectors."""

import re
from typing import Any

_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)")


def matches(obj: dict[str, Any], label_selector: str, field_selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    terms = [term.strip() for term in re.split(r",(?![^(]*\))", label_selector) if term.strip()]
    return all(_label(labels, term) for term in terms) and all(
        _field(obj, term) for term in field_selector.split(",") if term
    )


def _label(labels: dict[str, str], term: str) -> bool:
    if found := _SET.fullmatch(term):
        key, operator, text = found.groups()
        values = {value.strip() for value in text.split(",")}
        return (labels.get(key) in values) == (operator == "in")
    if "!=" in term:
        key, value = term.split("!=")
        return labels.get(key) != value
    if "=" in term:
        key, value = re.split("==?", term)
        return labels.get(key) == value
    return term[1:] not in labels if term.startswith("!") else term in labels


def _field(obj: dict[str, Any], term: str) -> bool:
    path, operator, wanted = re.split("(!=|==?)", term)
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return ((value or "") == wanted) == (operator != "!=")
