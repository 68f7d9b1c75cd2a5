"""What accelet reads of kubeconfig files is what kubectl reads of them."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import yaml

from accelet.kube.errors import ConfigurationError
from accelet.kube.kubeconfig import find_kubeconfig, read_kubeconfig
from tests.e2e.cluster.binaries import Binaries

NAMES = ("a", "b", "c")


def _entries(chance: random.Random, singular: str, make: Any) -> list[dict[str, Any]]:
    return [{"name": name, singular: make()} for name in NAMES if chance.random() < 0.6]


def _document(chance: random.Random) -> dict[str, Any]:
    def context() -> dict[str, str]:
        said = {"cluster": chance.choice(NAMES), "user": chance.choice(NAMES)}
        return said | ({"namespace": chance.choice(NAMES)} if chance.random() < 0.5 else {})

    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    if chance.random() < 0.6:
        document["current-context"] = chance.choice(("", *NAMES))
    document["contexts"] = _entries(chance, "context", context)
    document["clusters"] = _entries(chance, "cluster", lambda: {"server": f"https://{chance.random()}"})
    document["users"] = _entries(chance, "user", lambda: {"token": str(chance.random())})
    return document


def test_kubectl_says_the_same_of_a_hundred_sets_of_files(binaries: Binaries, tmp_path: Path) -> None:
    chance, seen = random.Random(30), []
    for number in range(100):
        folder = tmp_path / str(number)
        files = [folder / str(place) / "config" for place in range(chance.randint(1, 3))]
        for file in files:
            if chance.random() < 0.9:
                file.parent.mkdir(parents=True)
                file.write_text(yaml.safe_dump(_document(chance)))
        wanted = chance.choice((None, None, "a", "b"))
        environment = {"KUBECONFIG": os.pathsep.join(map(str, files)), "HOME": str(folder)}
        ours = _ours(environment, wanted, folder)
        assert ours == _kubectls(binaries.path("kubectl"), environment, wanted), environment
        seen.append(ours)
    assert 20 < seen.count(None) < 80, "of some sets both say nothing"


def _ours(environment: dict[str, str], context: str | None, home: Path) -> dict[str, Any] | None:
    chosen = find_kubeconfig(None, context, environment, home)
    assert chosen is not None
    try:
        found = read_kubeconfig(chosen)
    except ConfigurationError:
        return None
    by_name = {
        kind: {one["name"]: one for one in found.document[kind]} for kind in ("contexts", "clusters", "users")
    }
    said = by_name["contexts"][found.context]["context"]
    return {
        "context": said,
        "cluster": by_name["clusters"].get(found.cluster, {}).get("cluster"),
        "user": by_name["users"].get(found.user or "", {}).get("user"),
    }


def _kubectls(kubectl: Path, environment: dict[str, str], context: str | None) -> dict[str, Any] | None:
    words = [str(kubectl), "config", "view", "--raw", "--minify", "--output=json"]
    words += [f"--context={context}"] if context else []
    answer = subprocess.run(words, env=environment, capture_output=True, check=False)
    if answer.returncode:
        return None
    said = json.loads(answer.stdout)

    def only(kind: str, singular: str) -> Any:
        return (said[kind] or [{}])[0].get(singular)

    return {
        "context": only("contexts", "context"),
        "cluster": only("clusters", "cluster"),
        "user": only("users", "user"),
    }
