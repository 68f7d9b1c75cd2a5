"""Kustomizations of deploy/ as kubectl builds them."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def build(folder: Path, kubectl: Path) -> list[dict[str, Any]]:
    """The objects that a kustomization makes."""
    words = [str(kubectl), "kustomize", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return list(yaml.safe_load_all(done.stdout))
