"""What is installed only where it is asked for, and what a user reads who needs it and has it not."""

from collections.abc import Mapping
from typing import Final

EXTRAS: Final[Mapping[str, str]] = {
    "kubernetes": "cluster",
    "numpy": "scheduler",
    "starlette": "ui",
    "urllib3": "cluster",
    "uvicorn": "ui",
}
"""The extra that brings a package."""


def explain_missing(package: str) -> str:
    """The rest of a sentence that begins with who needs the package."""
    # Hardly anybody gets here: the others do without what it takes to read one's own installation.
    from accelet.control.installed import explain_install  # noqa: PLC0415

    shown = "kubernetes" if EXTRAS[package] == "cluster" else package
    return f"needs {shown}: {explain_install(EXTRAS[package])}"


def missing_package(error: ModuleNotFoundError) -> str | None:
    """The package of an extra that an import did not find; None where it is no extra's."""
    package = (error.name or "").partition(".")[0]
    return package if package in EXTRAS else None
