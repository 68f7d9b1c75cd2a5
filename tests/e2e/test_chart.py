"""deploy/chart, rendered by a real helm: it makes what the kustomizations make, and what values say."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import accelet
from accelet.agent.config import parse_config
from accelet.scheduler.settings import read_settings
from release.chart import pack_chart
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.https_client import RefusedError
from tests.e2e.cluster.workloads import COLLECTIONS, Workloads
from tests.e2e.helm import CHART, Helm, HelmRefusedError, Values
from tests.e2e.kustomize import DEPLOY, build

Manifest = dict[str, Any]
CHECKSUM, KEEP = "checksum/config", "helm.sh/resource-policy"
"""What the chart adds: a changed configuration makes new pods; the kind of what people wrote stays."""

OFF: Values = {"enabled": False}
ON: Values = {"enabled": True}
NOTHING: Values = {
    "agent": OFF,
    "scheduler": OFF,
    "policies": {"enabled": False, "elsewhere": True},
    "network": OFF,
}
PLAIN: Values = {"enabled": True, "assignments": False, "cards": False}
PARTS: Mapping[str, tuple[Values, Sequence[str]]] = {
    "everything that shares GPUs": ({}, ["."]),
    "agent": ({**NOTHING, "agent": PLAIN}, ["agent"]),
    "assignments": ({**NOTHING, "agent": {**PLAIN, "assignments": True}}, ["agent-assignments"]),
    "cards": ({**NOTHING, "agent": {**PLAIN, "cards": True}}, ["agent-cards"]),
    "amd": ({**NOTHING, "agent": {**PLAIN, "amd": True}}, ["agent-amd"]),
    "nvidia": ({**NOTHING, "agent": {**PLAIN, "nvidia": True}}, ["agent-nvidia"]),
    "tpu": ({**NOTHING, "agent": {**PLAIN, "tpu": True}}, ["agent-tpu"]),
    "dra": ({**NOTHING, "agent": {**PLAIN, "dra": True}}, ["agent-dra"]),
    "policies": ({**NOTHING, "policies": {"enabled": True}}, ["policies"]),
    "provisioner": (
        {**NOTHING, "provisioner": {"enabled": True}, "network": ON},
        ["crds", "provisioner", "provisioner/simulated"],
    ),
    "tasks": ({**NOTHING, "tasks": {"enabled": True}, "network": ON}, ["crds", "tasks"]),
    "monitoring": (
        {
            "provisioner": {"enabled": True},
            "tasks": {"enabled": True},
            "monitoring": {"podMonitors": True, "alerts": True, "dashboards": True},
        },
        [".", "crds", "provisioner", "provisioner/simulated", "tasks", "monitoring"],
    ),
    "identity": ({**NOTHING, "identity": {"enabled": True}}, ["identity"]),
}
CONTAINERS = {
    "agent": "agent",
    "scheduler": "scheduler",
    "provisioner": "provisioner",
    "tasks": "task-controller",
}
"""The container of each part."""
EVERYTHING: Values = {
    "agent": {"tpu": True, "nfd": True, "dra": True, "monitorClass": True, "config": {"version": "v1"}},
    "provisioner": {"enabled": True},
    "tasks": {"enabled": True},
    "identity": {"enabled": True},
    "monitoring": {"dashboards": True},
}


@pytest.fixture
def helm(helm_binaries: Binaries, tmp_path: Path) -> Helm:
    return Helm(helm_binaries.path("helm"), tmp_path)


def by_identity(manifests: Sequence[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    found = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in manifests
    }
    assert len(found) == len(manifests)
    return found


def of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def without_blanks(value: Any, key: str = "") -> Any:
    """Kustomize breaks the lines of CEL differently, to which blanks mean nothing."""
    if isinstance(value, dict):
        return {name: without_blanks(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [without_blanks(each) for each in value]
    return " ".join(value.split()) if key in ("expression", "messageExpression") else value


def without_additions(manifest: Manifest) -> Manifest:
    kept: Manifest = json.loads(json.dumps(manifest))
    if kept["kind"] == "Deployment":
        assert kept["spec"]["template"]["metadata"]["annotations"].pop(CHECKSUM)
    if kept["kind"] == "CustomResourceDefinition":
        assert kept["metadata"]["annotations"].pop(KEEP) == "keep"
        if not kept["metadata"]["annotations"]:
            del kept["metadata"]["annotations"]
    return kept


@pytest.mark.parametrize(("values", "folders"), PARTS.values(), ids=PARTS)
def test_chart_makes_what_the_kustomizations_make(
    helm: Helm, binaries: Binaries, values: Values, folders: Sequence[str]
) -> None:
    rendered = by_identity([without_additions(each) for each in helm.template(values)])
    built = [one for each in folders for one in build(DEPLOY / each, binaries.path("kubectl"))]
    assert without_blanks(rendered) == without_blanks(by_identity(built))


def test_nothing_is_made_where_all_is_off(helm: Helm) -> None:
    assert helm.template(NOTHING) == []


def test_what_every_switch_makes_is_admitted_to_the_letter(helm: Helm, workloads: Workloads) -> None:
    for manifest in helm.template(EVERYTHING):
        path = COLLECTIONS[manifest["kind"]].format(namespace=manifest["metadata"].get("namespace"))
        try:
            # Only judged: the policies would judge other tests.
            answer = workloads.client.send("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        except RefusedError as refused:
            # The name is looked for last: an object that a test has left tells that this one was admitted.
            if refused.status == 409:
                continue
            raise
        assert json.loads(answer)["metadata"]["name"] == manifest["metadata"]["name"]


def test_tpus_beside_cards_have_the_rights_mounts_and_settings_of_both(helm: Helm) -> None:
    made = helm.template({"agent": {"tpu": True}})
    config = parse_config(of_kind(made, "ConfigMap")["accelet-agent"]["data"]["config.yaml"], "the chart's")
    assert config.publish_cards
    (tpus,) = (each for each in config.resources if each.name == "google.com/tpu")
    assert tpus.settings.wants_node_labels
    pod = of_kind(made, "DaemonSet")["accelet-agent"]["spec"]["template"]["spec"]
    assert {"tpu-env", "tpu-logs", "dev"} <= {each["name"] for each in pod["volumes"]}
    patch = yaml.safe_load((DEPLOY / "agent-assignments/daemonset.patch.yaml").read_text())
    (patched,) = patch["spec"]["template"]["spec"]["containers"]
    limits = pod["containers"][0]["resources"]["limits"]
    assert limits == patched["resources"]["limits"]
    assert {"accelet-agent", "accelet-agent-cards", "accelet-agent-tpu"} <= of_kind(
        made, "ClusterRole"
    ).keys()


def test_each_class_of_nodes_has_an_agent_and_no_node_has_two(helm: Helm) -> None:
    flex = {"version": "v1", "resources": [{"name": "a.b/flex", "backend": "intel-gpu", "shares": 4}]}
    classes = {"flex": {"config": flex}, "old": {"values": ["dg1", "arctic"], "config": "version: v1\n"}}
    made = helm.template({"agent": {"classes": classes, "classLabel": "example.com/gpu"}})
    sets = of_kind(made, "DaemonSet")
    assert {name: _node_rule(each) for name, each in sets.items()} == {
        "accelet-agent": ("example.com/gpu", "NotIn", ["flex", "dg1", "arctic"]),
        "accelet-agent-flex": ("example.com/gpu", "In", ["flex"]),
        "accelet-agent-old": ("example.com/gpu", "In", ["dg1", "arctic"]),
    }
    maps = of_kind(made, "ConfigMap")
    for name, each in sets.items():
        template = each["spec"]["template"]
        assert each["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        (volume,) = (one for one in template["spec"]["volumes"] if one["name"] == "config")
        assert volume["configMap"]["name"] == name
        parse_config(maps[name]["data"]["config.yaml"], name)
    (only,) = parse_config(maps["accelet-agent-flex"]["data"]["config.yaml"], "flex").resources
    assert only.name == "a.b/flex"


def _node_rule(daemonset: Manifest) -> tuple[str, str, list[str]]:
    rule = daemonset["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = rule["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    return expression["key"], expression["operator"], expression["values"]


def test_values_reach_the_pods(helm: Helm, tmp_path: Path) -> None:
    part = {
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "resources": {"limits": {"memory": "2Gi"}},
        "patch": {
            "containers": [{"name": "NAME", "env": [{"name": "MORE", "value": "1"}]}],
            "hostUsers": True,
        },
    }
    parts = {
        name: json.loads(json.dumps(part).replace("NAME", container))
        for name, container in CONTAINERS.items()
    }
    parts["scheduler"]["config"] = {"version": "v1", "quiet_s": 3}
    parts["provisioner"]["enabled"] = parts["tasks"]["enabled"] = True
    digest = "sha256:" + "0" * 64
    image = {"repository": "r.example.com/accelet", "digest": digest, "pullSecrets": ["mine"]}
    made = helm.template({"image": image, "network": {"monitoringNamespace": "prom"}, **parts})
    workloads = {**of_kind(made, "DaemonSet"), **of_kind(made, "Deployment")}
    assert workloads.keys() == {f"accelet-{container}" for container in CONTAINERS.values()}
    for each in workloads.values():
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["image"] == f"r.example.com/accelet@{digest}"
        assert container["resources"] == part["resources"]
        assert pod["imagePullSecrets"] == [{"name": "mine"}]
        assert pod["nodeSelector"]["pool"] == "infra"
        assert pod["tolerations"] == part["tolerations"]
        assert pod["hostUsers"] is True
        assert len(container["env"]) > 1
        assert container["env"][0] == {"name": "MORE", "value": "1"}
    assert (
        workloads["accelet-agent"]["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux"
    )
    (tmp_path / "config.yaml").write_text(
        of_kind(made, "ConfigMap")["accelet-scheduler"]["data"]["config.yaml"]
    )
    assert read_settings(tmp_path / "config.yaml").quiet_s == 3
    for rule in of_kind(made, "NetworkPolicy").values():
        assert rule["spec"]["ingress"][0]["from"] == [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prom"}}}
        ]


ROOT_DIR = "/var/lib/k0s/kubelet"


def test_what_moves_with_the_kubelets_root_moves_and_device_plugins_stay(helm: Helm) -> None:
    classes = {"disks": {"kubeletRootDir": "/mnt/fast/kubelet", "config": "version: v1\n"}}
    agent = {"dra": True, "config": {"version": "v1"}, "kubeletRootDir": ROOT_DIR, "classes": classes}
    sets = of_kind(helm.template({"agent": agent}), "DaemonSet")
    for name, root in (("accelet-agent", ROOT_DIR), ("accelet-agent-disks", "/mnt/fast/kubelet")):
        pod = sets[name]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        told = {each["name"]: each.get("value") for each in container["env"]}
        assert told["ACCELET_KUBELET_ROOT_DIR"] == root
        mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        for volume in pod["volumes"]:
            path = volume.get("hostPath", {}).get("path", "")
            if "kubelet" not in path:
                continue
            assert mounted[volume["name"]] == path
            fixed = volume["name"] == "device-plugins"
            assert path.startswith("/var/lib/kubelet/device-plugins" if fixed else f"{root}/")
        assert len([path for path in mounted.values() if path.startswith(f"{root}/")]) == 5


def test_one_command_moves_them_without_helm(helm: Helm, binaries: Binaries) -> None:
    """What docs/distributions.md tells: all but device-plugins, as the chart does."""
    text = (DEPLOY.parent / "docs" / "distributions.md").read_text()
    (line,) = (one for one in text.splitlines() if "kubectl kustomize" in one)
    (expression,) = (one for one in line.split("'")[1::2])
    built = yaml.safe_dump_all(build(DEPLOY / "agent-dra", binaries.path("kubectl")), width=1000)
    done = subprocess.run(["sed", expression], input=built, capture_output=True, text=True, check=True)
    (moved,) = (each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "DaemonSet")
    values = {**NOTHING, "agent": {**PLAIN, "dra": True, "kubeletRootDir": ROOT_DIR}}
    assert moved["spec"] == of_kind(helm.template(values), "DaemonSet")["accelet-agent"]["spec"]


def test_a_changed_configuration_makes_new_pods_of_what_reads_it_at_start(helm: Helm) -> None:
    def checksum(config: Values) -> str:
        made = helm.template({"scheduler": {"config": config}})
        pods = of_kind(made, "Deployment")["accelet-scheduler"]["spec"]["template"]
        said: str = pods["metadata"]["annotations"][CHECKSUM]
        return said

    assert checksum({}) == checksum({}) != checksum({"version": "v1", "quiet_s": 3})


def test_resources_of_cards_reach_the_scheduler_and_the_policies(helm: Helm, tmp_path: Path) -> None:
    names = ["gpu.intel.com/xe", "gpu.intel.com/flex"]
    values: Sequence[Values] = (
        {},
        {"scheduler": {"config": "version: v1\ncards: {policy: balanced}\n"}},
        {"scheduler": {"config": {"version": "v1", "cards": {"resources": names}}}},
    )
    for each in values:
        made = helm.template({"cards": {"resources": names}, **each})
        (tmp_path / "config.yaml").write_text(
            of_kind(made, "ConfigMap")["accelet-scheduler"]["data"]["config.yaml"]
        )
        cards = read_settings(tmp_path / "config.yaml").cards
        assert cards.resources == tuple(names)
        assert cards.policy == ("balanced" if "balanced" in str(each) else "packed")
        for kind, name in (
            ("MutatingAdmissionPolicy", "accelet-gate"),
            ("ValidatingAdmissionPolicy", "accelet-requests"),
        ):
            variables = {
                one["name"]: one["expression"] for one in of_kind(made, kind)[name]["spec"]["variables"]
            }
            assert json.loads(variables["cards"]) == names


def test_alerts_have_the_whole_address_of_their_runbook_where_it_is_given(helm: Helm) -> None:
    for given, said in (("", None), ("https://git.example.com/docs/", "https://git.example.com/docs")):
        values = {"monitoring": {"alerts": True, "runbookUrl": given}, "provisioner": ON, "tasks": ON}
        made = of_kind(helm.template(values), "PrometheusRule")
        rules = [
            rule for each in made.values() for group in each["spec"]["groups"] for rule in group["rules"]
        ]
        assert len(made) == 4
        for rule in rules:
            path = rule["annotations"]["runbook"]
            assert rule["annotations"].get("runbook_url") == (said and f"{said}/{path}")


def test_one_patch_reaches_both_policies(binaries: Binaries, tmp_path: Path) -> None:
    """What docs/sharing.md tells those without helm to write."""
    text = (DEPLOY.parent / "docs" / "sharing.md").read_text()
    (block,) = (one for one in text.split("```yaml\n")[1:] if "accelet-(gate|requests)" in one)
    overlay = yaml.safe_load(block.partition("```")[0])
    (tmp_path / "overlay").mkdir()
    shutil.copytree(DEPLOY / "policies", tmp_path / "policies")
    overlay["resources"] = ["../policies"]
    (tmp_path / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    built = build(tmp_path / "overlay", binaries.path("kubectl"))
    lists = [
        [json.loads(one["expression"]) for one in each["spec"]["variables"] if one["name"] == "cards"]
        for each in built
        if each["metadata"]["name"] in ("accelet-gate", "accelet-requests") and "variables" in each["spec"]
    ]
    assert lists == [[["gpu.intel.com/xe", "gpu.intel.com/i915"]]] * 2


def test_it_goes_into_another_namespace_as_a_whole_where_that_is_trusted(helm: Helm) -> None:
    values = {**EVERYTHING, "monitoring": {"dashboards": True, "alerts": True, "podMonitors": True}}
    here = by_identity(helm.template(values))
    there = helm.template({**values, "trustedNamespace": "gpus"}, namespace="gpus")
    (quota,) = (each for each in there if each["kind"] == "ResourceQuota")
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    critical = {
        each["spec"]["template"]["spec"]["priorityClassName"]
        for each in there
        if each["kind"] in ("DaemonSet", "Deployment")
    }
    assert critical <= set(scope["values"])
    moved = {"kube-system": "gpus"}
    assert by_identity(there).keys() - {("ResourceQuota", "gpus", "accelet-critical-pods")} == {
        (kind, moved.get(namespace, namespace), name) for kind, namespace, name in here
    }
    for each in there:
        text = json.dumps(each)
        assert "serviceaccount:kube-system" not in text
        assert 'namespace=\\"kube-system' not in text
        for subject in each.get("subjects", ()):
            assert subject["namespace"] == "gpus"
    # What is meant of kube-system itself stays.
    policies = of_kind(there, "ValidatingAdmissionPolicy")
    assert "!= 'kube-system'" in json.dumps(policies["accelet-scheduler"])
    config = yaml.safe_load(of_kind(there, "ConfigMap")["accelet-provisioner"]["data"]["config.yaml"])
    assert config == {"version": "v1", "provider": "simulated", "simulated": {"namespace": "gpus"}}


def test_pods_and_accounts_have_labels_and_annotations_of_ones_own(helm: Helm) -> None:
    own = {
        "podLabels": {"team": "ml", "app.kubernetes.io/name": "other"},
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
        "accountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"},
    }
    parts = {name: dict(own) for name in CONTAINERS}
    parts["provisioner"]["enabled"] = parts["tasks"]["enabled"] = True  # type: ignore[assignment]
    made = helm.template(parts)
    workloads = {**of_kind(made, "DaemonSet"), **of_kind(made, "Deployment")}
    assert len(workloads) == len(CONTAINERS)
    for each in workloads.values():
        pod = each["spec"]["template"]["metadata"]
        assert pod["labels"]["team"] == "ml"
        assert each["spec"]["selector"]["matchLabels"].items() <= pod["labels"].items()
        assert own["podAnnotations"].items() <= pod["annotations"].items()
    accounts = of_kind(made, "ServiceAccount")
    assert accounts.keys() == workloads.keys()
    for account in accounts.values():
        assert account["metadata"]["annotations"] == own["accountAnnotations"]


def test_nothing_waits_for_policies_that_nobody_installs(helm: Helm, tmp_path: Path) -> None:
    def requires(values: Values) -> tuple[bool, bool]:
        maps = of_kind(helm.template(values), "ConfigMap")
        agent, scheduler = (maps[f"accelet-{name}"]["data"]["config.yaml"] for name in ("agent", "scheduler"))
        (tmp_path / "config.yaml").write_text(scheduler)
        return (
            parse_config(agent, "agent").require_policies,
            read_settings(tmp_path / "config.yaml").require_policies,
        )

    assert requires({}) == (True, True)
    assert requires({"policies": OFF}) == (False, False)
    assert requires({"policies": {"enabled": False, "elsewhere": True}}) == (True, True)
    for part in ("agent", "scheduler"):
        config = {"version": "v1", "require_policies": True, **({"resources": []} if part == "agent" else {})}
        for said in (config, yaml.safe_dump(config)):
            with pytest.raises(HelmRefusedError, match=rf"{part}\.config has require_policies: true"):
                helm.template({"policies": OFF, part: {"config": said}})


def test_notes_say_what_is_there_and_what_is_not_guarded(helm: Helm) -> None:
    def notes(values: Values, namespace: str = "kube-system") -> str:
        words = ["install", "accelet", str(CHART), "--dry-run=client", "--namespace", namespace]
        return helm.run(words, values).partition("\nNOTES:\n")[2]

    usual = notes({})
    assert "kubectl -n kube-system rollout status deployment/accelet-scheduler" in usual
    assert "accelet doctor" in usual
    assert "WARNING" not in usual
    assert "provisioner" not in usual
    assert "no admission policies are installed" in notes({"policies": OFF})
    assert "-n gpus exec daemonset/accelet-agent" in notes({"trustedNamespace": "gpus"}, "gpus")


REFUSED: Mapping[str, tuple[Values, str]] = {
    "no image": ({"image": {"repository": ""}}, "image.repository: name the image"),
    "a value there is not": ({"agent": {"tpus": True}}, "tpus"),
    "a wrong type": ({"scheduler": {"replicas": "two"}}, "replicas"),
    "no digest": ({"image": {"digest": "latest"}}, "digest"),
    "no name of a class": ({"agent": {"classes": {"Flex Cards": {"config": {}}}}}, "Flex Cards"),
    "a class without configuration": ({"agent": {"classes": {"flex": {}}}}, "config"),
    "a node of two classes": (
        {"agent": {"classes": {"a": {"config": "v"}, "b": {"config": "v", "values": ["a"]}}}},
        'two classes have the value "a"',
    ),
    "cards of another domain": ({"cards": {"resources": ["example.com/gpu"]}}, "example.com/gpu"),
    "two lists of cards": (
        {
            "cards": {"resources": ["gpu.intel.com/xe"]},
            "scheduler": {"config": {"version": "v1", "cards": {"resources": ["gpu.intel.com/i915"]}}},
        },
        "write the list in cards.resources alone",
    ),
    "two ways to serve and no word which": ({"agent": {"dra": True}}, "say in agent.config which resources"),
}


@pytest.mark.parametrize(("values", "word"), REFUSED.values(), ids=REFUSED)
def test_wrong_values_are_refused_with_their_names(helm: Helm, values: Values, word: str) -> None:
    with pytest.raises(HelmRefusedError) as refused:
        helm.template(values)
    assert word in str(refused.value)


def test_another_namespace_and_older_versions_are_refused_with_what_to_do(helm: Helm) -> None:
    with pytest.raises(HelmRefusedError, match="helm install --namespace kube-system"):
        helm.template({}, namespace="default")
    with pytest.raises(HelmRefusedError, match=r"policies\.gate needs Kubernetes 1\.36"):
        helm.template({}, kubernetes="1.33.0")
    with pytest.raises(HelmRefusedError, match="kubeVersion"):
        helm.template({}, kubernetes="1.29.0")
    older = helm.template({"policies": {"gate": False}}, kubernetes="1.33.0")
    assert not of_kind(older, "MutatingAdmissionPolicy")


def test_package_of_a_release_makes_what_the_folder_makes(helm: Helm, tmp_path: Path) -> None:
    package = pack_chart(CHART, tmp_path / "accelet.tgz", 1_700_000_000)
    assert helm.template(EVERYTHING, chart=package) == helm.template(EVERYTHING)
    again = pack_chart(CHART, tmp_path / "again.tgz", 1_700_000_000)
    assert again.read_bytes() == package.read_bytes()


def test_chart_is_of_this_version_and_has_nothing_of_its_own(helm: Helm) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == accelet.__version__
    assert all(path.is_symlink() for path in (CHART / "manifests").iterdir())
    said = helm.run(["lint", "--strict", "--namespace", "kube-system", str(CHART)])
    assert "0 chart(s) failed" in said


def test_the_right_to_evict_comes_with_preemption_alone(helm: Helm) -> None:
    for gangs in (False, True):
        config = {"version": "v1", "preemption": {"gangs": gangs}}
        for said in (config, yaml.safe_dump(config)):
            made = helm.template({"scheduler": {"config": said}})
            assert ("accelet-scheduler-preemption" in of_kind(made, "ClusterRole")) == gangs
            assert ("accelet-scheduler-preemption" in of_kind(made, "ClusterRoleBinding")) == gangs


def test_rights_to_kueues_objects_come_with_its_admission_alone(helm: Helm) -> None:
    for kueue in (False, True):
        made = helm.template({"scheduler": {"config": {"version": "v1", "admission": {"kueue": kueue}}}})
        for kind in ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy"):
            assert ("accelet-scheduler-admission" in of_kind(made, kind)) == kueue


def test_the_right_to_propose_moves_comes_with_moves_alone(helm: Helm) -> None:
    for propose in (False, True):
        made = helm.template({"scheduler": {"config": {"version": "v1", "moves": {"propose": propose}}}})
        assert ("accelet-scheduler-moves" in of_kind(made, "ClusterRole")) == propose
        assert ("accelet-scheduler-moves" in of_kind(made, "ClusterRoleBinding")) == propose
