"""The API server's rules for what labels, annotations and objects are called, as sentences.

As k8s.io/apimachinery/pkg/util/validation has them: IsValidLabelValue, IsQualifiedName, IsDNS1123Subdomain
and IsDNS1123Label.
"""

import re
from typing import Final

from accelet.runtime.excerpts import excerpt

LABEL_VALUE: Final = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
"""The pattern of a label's value of at most 63 characters, for schemas."""

QUALIFIED_NAME: Final = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
)
"""The pattern of a label's key; its part before the slash has at most 253 characters."""

_LONGEST_NAME: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_SHOWN: Final = 80

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def label_value_problem(text: str) -> str:
    """What is wrong with the value of a label, empty for nothing. The empty value is one."""
    if len(text) > _LONGEST_NAME:
        return f"{_shown(text)} is longer than {_LONGEST_NAME} characters"
    if text and not _NAME.fullmatch(text):
        return (
            f"{_shown(text)} may have letters, digits, -, _ and . alone, and begins and ends"
            " with a letter or digit"
        )
    return ""


def label_key_problem(text: str) -> str:
    """What is wrong with the key of a label or annotation, empty for nothing."""
    prefix, slash, name = text.rpartition("/")
    if slash and (problem := subdomain_problem(prefix)):
        return f"the part of {_shown(text)} before the slash: {problem}"
    if not name:
        return f"{_shown(text)} has no name"
    return label_value_problem(name)


def subdomain_problem(text: str) -> str:
    """What is wrong with the name of most objects, empty for nothing."""
    if not text or len(text) > _LONGEST_SUBDOMAIN or not _SUBDOMAIN.fullmatch(text):
        return (
            f"{_shown(text)} must be at most {_LONGEST_SUBDOMAIN} of a-z, 0-9, - and ., and its parts begin"
            " and end with a letter or digit"
        )
    return ""


def namespace_problem(text: str) -> str:
    """What is wrong with the name of a namespace, empty for nothing."""
    if len(text) > _LONGEST_NAME or not _LABEL.fullmatch(text):
        return (
            f"{_shown(text)} must be at most {_LONGEST_NAME} of a-z, 0-9 and -, and begin and end"
            " with a letter or digit"
        )
    return ""


def _shown(text: str) -> str:
    return excerpt(text, _SHOWN)
