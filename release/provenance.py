"""Where release files come from: an in-toto statement with SLSA's predicate, and checksums."""

from collections.abc import Mapping
from typing import Any, Final

_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://slsa.dev/provenance/v1"
_BUILD_TYPE: Final = "urn:accelet:release:v1"
"""`make release VERSION=...` in a checkout of the revision, with the tools of locks/build.txt."""


def make_provenance(
    version: str, revision: str, files: Mapping[str, str], locks: Mapping[str, str]
) -> Mapping[str, Any]:
    """The statement about files, by their names and SHA-256; `locks` are what they were made of, likewise.

    It has no time and no name of a machine: two runs say the same. Who vouches for it is who signed the
    checksums.
    """
    sources = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(locks.items())]
    return {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(files.items())],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"version": version},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": revision}},
                    *sources,
                ],
            },
            "runDetails": {"builder": {"id": _BUILD_TYPE}},
        },
    }


def render_checksums(files: Mapping[str, str]) -> str:
    """As `sha256sum --check` reads them."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
