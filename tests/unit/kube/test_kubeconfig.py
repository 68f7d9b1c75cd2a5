"""A kubeconfig that cannot be used is told in a sentence that quotes nothing of it."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.apiresources import ClusterName
from accelet.kube.connection import load_api, name_cluster
from accelet.kube.errors import ConfigurationError
from accelet.kube.kubeconfig import MOST_BYTES, Kubeconfig, find_kubeconfig, merge, read_kubeconfig

FORM = "is not in the form that kubectl writes, a mapping with lists of clusters, contexts and users"
USED = "current-context: a\ncontexts:\n- {name: a, context: {cluster: b, user: c}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "[secret]",
        "7",
        "kind: secret",
        "clusters: secret",
        f"{USED}clusters: [secret]\nusers: []\n",
        f"{USED}clusters: []\nusers: [secret]\n",
        "current-context: [secret]\ncontexts: [{name: [secret]}]\nclusters: []\n",
        "",
    ],
)
def test_file_of_another_form_is_said_to_be_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kc"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_api(Kubeconfig((path,)))
    said = str(caught.value)
    assert said.startswith(f"kubeconfig {path}")
    assert "Error" not in said
    assert "secret" not in said


def test_form_is_told(tmp_path: Path) -> None:
    (tmp_path / "kc").write_text("[]")
    with pytest.raises(ConfigurationError, match=FORM):
        load_api(Kubeconfig((tmp_path / "kc",)))


def test_text_that_is_not_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "kc").write_text("clusters: []\nusers: {secret\n")
    with pytest.raises(ConfigurationError, match=r"kc is not YAML \(line 3\)$"):
        load_api(Kubeconfig((tmp_path / "kc",)))


def test_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"kubeconfig .*kc"):
        load_api(Kubeconfig((tmp_path / "kc",)))


def test_cluster_has_the_names_of_its_context(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    contexts = "- {name: a, context: {cluster: b, user: c}}\n- {name: d, context: {cluster: e, user: c}}\n"
    clusters = (
        "- {name: b, cluster: {server: 'https://b:6443'}}\n- {name: e, cluster: {server: 'https://e:6443'}}\n"
    )
    path.write_text(
        f"current-context: a\ncontexts:\n{contexts}clusters:\n{clusters}users: [{{name: c, user: {{}}}}]\n"
    )
    assert name_cluster(Kubeconfig((path,))) == ClusterName("a", "b", "https://b:6443")
    assert name_cluster(Kubeconfig((path,), "d")) == ClusterName("d", "e", "https://e:6443")
    with pytest.raises(ConfigurationError, match=r"there is no context 'none' \(there are a, d\)$"):
        name_cluster(Kubeconfig((path,), "none"))


def write(path: Path, **said: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **said}))
    return path


def context(name: str, cluster: str = "c", user: str = "u", **more: str) -> dict[str, Any]:
    return {"name": name, "context": {"cluster": cluster, "user": user, **more}}


def cluster(name: str, server: str, **more: str) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": server, **more}}


def test_kubectls_order_of_files_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert find_kubeconfig(None, None, {}, home) is None
    assert find_kubeconfig(None, "a", {}, home) == Kubeconfig((home / ".kube/config",), "a")
    usual = write(home / ".kube/config")
    assert find_kubeconfig(None, None, {}, home) == Kubeconfig((usual,))
    named = {"KUBECONFIG": os.pathsep.join(("", "/a", "", "/b"))}
    both = Kubeconfig((Path("/a"), Path("/b")), is_explicit=False)
    assert find_kubeconfig(None, None, named, home) == both
    assert find_kubeconfig(Path("/given"), "x", named, home) == Kubeconfig((Path("/given"),), "x")


def test_the_first_file_that_says_a_thing_counts(tmp_path: Path) -> None:
    one = write(
        tmp_path / "one",
        contexts=[context("a", namespace="ml")],
        clusters=[cluster("c", "https://one")],
        users=[{"name": "u", "user": {}}],
    )
    other = write(
        tmp_path / "other",
        **{"current-context": "a"},
        contexts=[context("a", "other"), context("b", "d")],
        clusters=[cluster("c", "https://two"), cluster("d", "https://three")],
    )
    files = (tmp_path / "gone", one, other)
    found = read_kubeconfig(Kubeconfig(files, is_explicit=False))
    assert (found.context, found.cluster, found.namespace, found.user) == ("a", "c", "ml", "u")
    assert name_cluster(Kubeconfig(files, is_explicit=False)) == ClusterName("a", "c", "https://one")
    assert name_cluster(Kubeconfig(files, "b", is_explicit=False)) == ClusterName("b", "d", "https://three")
    assert read_kubeconfig(Kubeconfig(files, "b", is_explicit=False)).namespace is None


def test_relative_paths_are_those_of_the_files_own_folder(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "bin/login"}
    write(
        tmp_path / "deep/config",
        **{"current-context": "a"},
        contexts=[context("a")],
        clusters=[cluster("c", "https://one", **{"certificate-authority": "ca.pem"})],
        users=[
            {"name": "u", "user": {"client-key": "k.pem", "tokenFile": "/abs/token", "exec": plugin}},
            {"name": "path", "user": {"exec": {**plugin, "command": "login"}}},
        ],
    )
    document = read_kubeconfig(Kubeconfig((tmp_path / "deep/config",))).document
    folder = str(tmp_path / "deep")
    assert document["clusters"][0]["cluster"]["certificate-authority"] == f"{folder}/ca.pem"
    user = document["users"][0]["user"]
    assert (user["client-key"], user["tokenFile"]) == (f"{folder}/k.pem", "/abs/token")
    assert user["exec"]["command"] == f"{folder}/bin/login"
    assert document["users"][1]["user"]["exec"]["command"] == "login", "looked up by PATH"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x00\x01", r"kc is not YAML"),
        (b"[" * 100_000, r"kc is nested more than 100 deep \(line 1\)$"),
        (b"a: " + b"[" * 90_000 + b"]" * 90_000, r"kc is nested more than 100 deep \(line 1\)$"),
        (b"#" * (MOST_BYTES + 1), "is larger than"),
        (b"contexts: []\n", "it has no current-context: give --context NAME"),
        (b"contexts: [{name: a, context: {}}]\n", r"give --context NAME \(there are a\)"),
    ],
)
def test_a_file_that_says_no_cluster_is_told(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "kc").write_bytes(content)
    with pytest.raises(ConfigurationError, match=says):
        read_kubeconfig(Kubeconfig((tmp_path / "kc",)))


def test_files_that_are_all_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="kubeconfig /no/a:/no/b: there is no such file"):
        read_kubeconfig(Kubeconfig((Path("/no/a"), Path("/no/b")), is_explicit=False))


_NAMES = st.sampled_from(("a", "b"))
_DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "current-context": st.sampled_from(("", "a", "b")),
        "contexts": st.lists(st.builds(context, _NAMES, _NAMES, st.just("")), max_size=2),
        "clusters": st.lists(st.builds(cluster, _NAMES, st.sampled_from(("s1", "s2"))), max_size=2),
    },
)


@given(documents=st.lists(_DOCUMENTS, min_size=1, max_size=4), chosen=st.none() | _NAMES)
def test_merged_files_say_what_the_first_of_each_name_says(
    documents: list[dict[str, Any]], chosen: str | None
) -> None:
    said = [each["current-context"] for each in documents if each.get("current-context")]
    name = chosen or next(iter(said), None)
    contexts = [one for each in documents for one in each.get("contexts", []) if one["name"] == name]
    paired = [(Path(f"/f{number}"), each) for number, each in enumerate(documents)]
    wanted = Kubeconfig(tuple(path for path, _ in paired), chosen)
    named = {one["name"] for each in documents for one in each.get("clusters", [])}
    if not contexts or contexts[0]["context"]["cluster"] not in named:
        with pytest.raises(ConfigurationError):
            merge(wanted, paired)
        return
    found = merge(wanted, paired)
    assert (found.context, found.cluster) == (name, contexts[0]["context"]["cluster"])
    servers = {one["name"]: one["cluster"]["server"] for one in found.document["clusters"]}
    first: dict[str, str] = {}
    for each in documents:
        for one in each.get("clusters", []):
            first.setdefault(one["name"], one["cluster"]["server"])
    assert servers == first
