"""Kustomizations of deploy/ as kubectl builds them."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"


def build(folder: Path) -> list[dict[str, Any]]:
    """The objects that a kustomization makes; skips a test that needs them where nothing can build it."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on this machine, and only it can build a kustomization")
    words = [kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return list(yaml.safe_load_all(done.stdout))
