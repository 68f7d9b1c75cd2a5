"""A folder with a short path: a socket's may have 107 bytes only."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="accelet-") as name:
        yield Path(name)
