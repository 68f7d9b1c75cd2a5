"""The chart as helm renders and installs it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kustomize import DEPLOY

CHART = DEPLOY / "chart"
NAMESPACE = "kube-system"
Values = Mapping[str, Any]


class HelmRefusedError(Exception):
    """What helm says against values or a cluster."""


class Helm:
    """Commands of a real helm, with its own folders; `kubeconfig` where there is a cluster."""

    def __init__(self, helm: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._helm, self._folder, self._kubeconfig = helm, folder, kubeconfig

    def run(self, words: Sequence[str], values: Values | None = None) -> str:
        """What it prints. The image is the one of the tests, unless values name another.

        Raises:
            HelmRefusedError: it failed, with its words.
        """
        path = self._folder / "values.yaml"
        path.write_text(json.dumps({"image": {"repository": "accelet"}, **(values or {})}))
        given = ["--values", str(path)] if values is not None else []
        cluster = ["--kubeconfig", str(self._kubeconfig)] if self._kubeconfig else []
        done = subprocess.run(
            [str(self._helm), *words, *given, *cluster],
            capture_output=True,
            text=True,
            check=False,
            # All that it keeps, the answers of API servers too.
            env={"HOME": str(self._folder)},
        )
        if done.returncode:
            raise HelmRefusedError(
                "\n".join(line for line in done.stderr.splitlines() if "symbolic link" not in line)
            )
        return done.stdout

    def template(
        self, values: Values, *, kubernetes: str = "1.36.0", namespace: str = NAMESPACE, chart: Path = CHART
    ) -> list[dict[str, Any]]:
        """The objects of the chart with these values, for a version of Kubernetes."""
        words = ["template", "accelet", str(chart), "--namespace", namespace, "--kube-version", kubernetes]
        said = self.run(words, values)
        return [each for each in yaml.safe_load_all(said) if each is not None and not is_hook(each)]


def is_hook(manifest: Mapping[str, Any]) -> bool:
    """Whether helm makes it for a while only, when something is done with the release."""
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})
