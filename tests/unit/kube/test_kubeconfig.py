"""A kubeconfig that cannot be used is told in a sentence that quotes nothing of it."""

from pathlib import Path

import pytest

from accelet.kube.apiresources import ClusterName
from accelet.kube.connection import load_api, name_cluster
from accelet.kube.errors import ConfigurationError

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
        load_api(path)
    said = str(caught.value)
    assert said.startswith(f"kubeconfig {path}")
    assert "Error" not in said
    assert "secret" not in said


def test_form_is_told(tmp_path: Path) -> None:
    (tmp_path / "kc").write_text("[]")
    with pytest.raises(ConfigurationError, match=FORM):
        load_api(tmp_path / "kc")


def test_text_that_is_not_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "kc").write_text("clusters: []\nusers: {secret\n")
    with pytest.raises(ConfigurationError, match=r"kc is not YAML \(line 3\)$"):
        load_api(tmp_path / "kc")


def test_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"kubeconfig .*kc"):
        load_api(tmp_path / "kc")


def test_cluster_has_the_names_of_its_context(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    contexts = "- {name: a, context: {cluster: b, user: c}}\n- {name: d, context: {cluster: e, user: c}}\n"
    clusters = (
        "- {name: b, cluster: {server: 'https://b:6443'}}\n- {name: e, cluster: {server: 'https://e:6443'}}\n"
    )
    path.write_text(
        f"current-context: a\ncontexts:\n{contexts}clusters:\n{clusters}users: [{{name: c, user: {{}}}}]\n"
    )
    assert name_cluster(path) == ClusterName("a", "b", "https://b:6443")
    assert name_cluster(path, "d") == ClusterName("d", "e", "https://e:6443")
    with pytest.raises(ConfigurationError):
        name_cluster(path, "none")
