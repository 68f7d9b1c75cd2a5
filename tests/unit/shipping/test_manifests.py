"""daemonset.yaml and the examples say what the code understands."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import accelet
from accelet.accelerators.cdi.specs import FOLDERS as CDI_FOLDERS
from accelet.accelerators.nvidia.driverfiles import FOLDER as DRIVER_FOLDER
from accelet.accelerators.reading.devicememory import CGROUPS
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.accelerators.tpu.statements import TPU_ENV_PATH
from accelet.agent.config import DEFAULT_CONFIG, parse_config
from accelet.cli.agent import command
from accelet.dra.names import DRIVERS
from accelet.runtime.probes import parse_address
from accelet.scheduler.cards.needs import CARD_RESOURCES

PROJECT = Path(__file__).parent.parent.parent.parent
EVERY_YAML = sorted(
    path
    for folder in (PROJECT / "deploy" / "monitoring", PROJECT / "examples" / "agent")
    for path in folder.glob("*.yaml")
    if path.name != "kustomization.yaml"
)


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.fixture
def daemonset() -> dict[str, Any]:
    (found,) = (each for each in documents(PROJECT / "daemonset.yaml") if each["kind"] == "DaemonSet")
    return found


@pytest.fixture
def container(daemonset: dict[str, Any]) -> dict[str, Any]:
    (only,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def config_text(path: Path) -> str:
    (found,) = (each for each in documents(path) if each["kind"] == "ConfigMap")
    text: str = found["data"]["config.yaml"]
    return text


def test_shipped_configuration_serves_what_the_built_in_one_serves() -> None:
    shipped = parse_config(config_text(PROJECT / "daemonset.yaml"), "daemonset.yaml")
    assert shipped == parse_config(DEFAULT_CONFIG, "built in")


def test_example_configuration_is_understood() -> None:
    config = parse_config(config_text(PROJECT / "examples" / "agent" / "simulated.yaml"), "simulated.yaml")
    served = {resource.name for resource in config.resources}
    asked = {
        resource
        for pod in documents(PROJECT / "examples" / "agent" / "pods.yaml")
        for container in pod["spec"]["containers"]
        for resource in container["resources"]["limits"]
    }
    assert asked < served


def test_settings_commented_out_are_understood() -> None:
    text = config_text(PROJECT / "daemonset.yaml")
    more = re.sub(r"^(  )?# ((?:- {?name|  \w+|monitoring):)", r"\1\2", text, flags=re.MULTILINE)
    # As a comment there says, another resource must then leave these GPUs out.
    more = more.replace("driver: [i915]", "driver: [i915], device_id: [0x5690]")
    more = more.replace("driver: [xe]", "driver: [xe], device_id: [0xe20b]")
    served = [resource.name for resource in parse_config(more, "daemonset.yaml with its comments").resources]
    assert {"gpu.intel.com/flex170", "accelet.dev/fuse", "gpu.intel.com/monitoring"} < set(served)


def parameters(container: dict[str, Any]) -> dict[str, Any]:
    """What the agent takes from the container's arguments and environment."""
    name, *arguments = container["args"]
    assert name == "agent"
    told = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    with CliRunner(env=told).isolation():
        return command.make_context("agent", arguments).params


def test_arguments_are_those_of_the_command(container: dict[str, Any]) -> None:
    told = parameters(container)
    host_root = str(told["host_root"])
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {f"{host_root}/dev", f"{host_root}/sys/class"} <= mounts
    assert str(told["kubelet_dir"] / "device-plugins") in mounts
    assert parse_address(told["http"])[1] == container["ports"][0]["containerPort"]


def test_image_is_of_this_version(container: dict[str, Any]) -> None:
    assert container["image"].rpartition(":")[2] == accelet.__version__


def test_every_volume_is_mounted_and_only_the_socket_directory_is_writable(
    daemonset: dict[str, Any], container: dict[str, Any]
) -> None:
    volumes = {volume["name"] for volume in daemonset["spec"]["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/kubelet/device-plugins"]


def test_selector_matches_the_pods(daemonset: dict[str, Any]) -> None:
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    assert daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("path", EVERY_YAML, ids=lambda path: path.name)
def test_manifest_is_whole(path: Path) -> None:
    for document in documents(path):
        assert {"apiVersion", "kind", "metadata"} <= document.keys()


ASSIGNMENTS = PROJECT / "deploy" / "agent-assignments"
TPU = PROJECT / "deploy" / "agent-tpu"
CARDS = PROJECT / "deploy" / "agent-cards"
DRA = PROJECT / "deploy" / "agent-dra"
NVIDIA = PROJECT / "deploy" / "agent-nvidia"
AMD = PROJECT / "deploy" / "agent-amd"


def test_assignments_need_pods_events_and_the_node_and_nothing_else() -> None:
    objects = {each["kind"]: each for each in documents(ASSIGNMENTS / "rbac.yaml")}
    rules = {
        (group, resource): rule["verbs"]
        for rule in objects["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert rules == {
        ("", "pods"): ["get", "list", "watch"],
        ("", "nodes"): ["get"],
        ("events.k8s.io", "events"): ["create", "patch"],
    }
    (subject,) = objects["ClusterRoleBinding"]["subjects"]
    account = objects["ServiceAccount"]["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])


def test_assignments_patch_what_daemonset_yaml_has(daemonset: dict[str, Any]) -> None:
    (patch,) = documents(ASSIGNMENTS / "daemonset.patch.yaml")
    account = patch["spec"]["template"]["spec"]["serviceAccountName"]
    (made,) = (each for each in documents(ASSIGNMENTS / "rbac.yaml") if each["kind"] == "ServiceAccount")
    assert account == made["metadata"]["name"]
    assert patch["metadata"]["namespace"] == made["metadata"]["namespace"]
    assert patch["metadata"].items() <= daemonset["metadata"].items()
    assert daemonset["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_assignments_configuration_is_understood_and_follows_them() -> None:
    text = config_text(ASSIGNMENTS / "config.patch.yaml")
    followed = [
        each.name for each in parse_config(text, "config.patch.yaml").resources if each.rules.following
    ]
    assert followed == ["gpu.intel.com/i915", "gpu.intel.com/xe"]


def made_by(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of a kustomization before its patches."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    for name in kustomization["resources"]:
        path = folder / name
        yield from made_by(path) if path.is_dir() else documents(path)


@pytest.mark.parametrize(
    "folder", [ASSIGNMENTS, TPU, CARDS, DRA, NVIDIA, AMD], ids=lambda folder: folder.name
)
def test_kustomization_names_files_there_are_and_patches_objects_there_are(folder: Path) -> None:
    (kustomization,) = documents(folder / "kustomization.yaml")
    patches = [folder / each["path"] for each in kustomization["patches"]]
    made = [_identity(each) for each in made_by(folder)]
    assert len(set(made)) == len(made)
    assert {_identity(each) for path in patches for each in documents(path)} <= set(made)


def _identity(manifest: dict[str, Any]) -> tuple[str, str, str]:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def test_tpu_nodes_need_a_node_and_events_on_it_and_nothing_else() -> None:
    objects = {each["kind"]: each for each in documents(TPU / "rbac.yaml")}
    assert objects["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert objects["Role"]["metadata"]["namespace"] == "default"
    events = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
    assert objects["Role"]["rules"] == [events]
    (account,) = documents(TPU / "account.yaml")
    for kind in ("ClusterRole", "Role"):
        binding = objects[f"{kind}Binding"]
        assert binding["roleRef"]["name"] == objects[kind]["metadata"]["name"]
        (subject,) = binding["subjects"]
        assert _identity({"kind": subject["kind"], "metadata": subject}) == _identity(account)


def test_tpu_nodes_mount_what_their_back_end_reads_and_writes(container: dict[str, Any]) -> None:
    (patch,) = documents(TPU / "daemonset.patch.yaml")
    pod = patch["spec"]["template"]["spec"]
    (account,) = documents(TPU / "account.yaml")
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    (patched,) = pod["containers"]
    assert patched["name"] == container["name"]
    host_paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    root = parameters(container)["host_root"]
    for mount in patched["volumeMounts"]:
        assert mount["mountPath"] == f"{root}{host_paths[mount['name']]}"
    writable = [host_paths[mount["name"]] for mount in patched["volumeMounts"] if not mount.get("readOnly")]
    assert writable == [TpuSettings().log_folder]
    assert f"/{TPU_ENV_PATH}".startswith(f"{host_paths['tpu-env']}/")


def test_nvidia_nodes_mount_what_their_back_end_reads_and_write_nothing(container: dict[str, Any]) -> None:
    (patch,) = documents(NVIDIA / "daemonset.patch.yaml")
    pod = patch["spec"]["template"]["spec"]
    assert pod.keys() == {"containers", "volumes"}
    (patched,) = pod["containers"]
    assert patched.keys() == {"name", "volumeMounts"}
    assert patched["name"] == container["name"]
    host_paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    root = parameters(container)["host_root"]
    for mount in patched["volumeMounts"]:
        assert mount["mountPath"] == f"{root}{host_paths[mount['name']]}"
        assert mount["readOnly"] is True
    assert {f"/{folder}" for folder in CDI_FOLDERS} | {f"/{DRIVER_FOLDER.rpartition('/')[0]}"} == {
        *host_paths.values()
    }


@pytest.mark.parametrize(("folder", "name"), [(NVIDIA, "nvidia.com/gpu"), (AMD, "amd.com/gpu")])
def test_nodes_of_a_vendor_have_one_resource_more(folder: Path, name: str) -> None:
    shipped = parse_config(config_text(folder / "config.patch.yaml"), "config.patch.yaml").resources
    built_in = parse_config(DEFAULT_CONFIG, "built in").resources
    assert [each.name for each in shipped if each not in built_in] == [name]


def test_tpu_nodes_configuration_asks_for_the_labels() -> None:
    shipped = parse_config(config_text(TPU / "config.patch.yaml"), "config.patch.yaml").resources
    assert [each.name for each in shipped if each.settings.wants_node_labels] == ["google.com/tpu"]
    assert {each.name for each in shipped} == {
        each.name for each in parse_config(DEFAULT_CONFIG, "built in").resources
    }


def test_cards_need_nodes_and_their_status_and_nothing_else() -> None:
    objects = {each["kind"]: each for each in documents(CARDS / "rbac.yaml")}
    assert objects["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            "resourceNames": ["accelet-assignments"],
            "verbs": ["get"],
        },
    ]
    binding = objects["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == objects["ClusterRole"]["metadata"]["name"]
    (account,) = (each for each in documents(ASSIGNMENTS / "rbac.yaml") if each["kind"] == "ServiceAccount")
    (subject,) = binding["subjects"]
    assert _identity({"kind": subject["kind"], "metadata": subject}) == _identity(account)


def test_cards_policy_is_bound_and_denies_what_it_cannot_judge() -> None:
    policy, binding = documents(CARDS / "policy.yaml")
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:kube-system:accelet-agent'" in condition["expression"]
    rules = {rule["reason"] for rule in policy["spec"]["validations"]}
    assert rules == {"Forbidden"}


def test_cards_configuration_publishes_all_that_is_assigned_and_gives_nothing_twice() -> None:
    text = config_text(CARDS / "config.patch.yaml")
    config = parse_config(text, "config.patch.yaml")
    assert config.publish_cards
    followed = {each.name: each.rules.following for each in config.resources if each.rules.following}
    assert set(followed) == {"gpu.intel.com/i915", "gpu.intel.com/xe"}
    assert {policies.on_conflict for policies in followed.values()} == {"refuse"}
    more = parse_config(text.replace("# nfd_features", "nfd_features"), "config.patch.yaml with its comment")
    (patch,) = documents(CARDS / "nfd.patch.yaml")
    pod = patch["spec"]["template"]["spec"]
    (volume,), (container,) = pod["volumes"], pod["containers"]
    (mount,) = container["volumeMounts"]
    assert str(Path(more.nfd_features or "").parent) == volume["hostPath"]["path"]
    assert mount["mountPath"] == f"/host{volume['hostPath']['path']}"
    assert mount["name"] == volume["name"]


def test_dra_needs_slices_claims_pods_nodes_and_events_and_lists_no_claims() -> None:
    objects = {each["kind"]: each for each in documents(DRA / "rbac.yaml")}
    rules = {
        (group, resource): rule["verbs"]
        for rule in objects["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert rules == {
        ("resource.k8s.io", "resourceslices"): ["get", "list", "watch", "create", "update", "delete"],
        ("resource.k8s.io", "resourceclaims"): ["get"],
        ("resource.k8s.io", "resourceclaims/status"): ["patch"],
        ("resource.k8s.io", "resourceclaims/driver"): ["associated-node:patch"],
        ("", "nodes"): ["get"],
        ("", "pods"): ["get"],
        ("events.k8s.io", "events"): ["create", "patch"],
    }


def test_dra_policy_and_mounts_name_every_driver() -> None:
    slices, _, claims, _ = documents(DRA / "policy.yaml")
    (variable,) = (one for one in claims["spec"]["variables"] if one["name"] == "drivers")
    (patch,) = documents(DRA / "daemonset.patch.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    for driver in DRIVERS:
        assert f"'{driver}'" in str(slices["spec"]["validations"][2]["expression"])
        assert f"'{driver}'" in variable["expression"]
        assert f"/var/lib/kubelet/plugins/{driver}" in mounted


def test_dra_policies_are_bound_and_deny_what_they_cannot_judge() -> None:
    """Of whatever the agent's rights let it write, and only of that."""
    found = list(documents(DRA / "policy.yaml"))
    resources = []
    for policy, binding in zip(found[::2], found[1::2], strict=True):
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
        (condition,) = policy["spec"]["matchConditions"]
        assert "'system:serviceaccount:kube-system:accelet-agent'" in condition["expression"]
        assert {rule["reason"] for rule in policy["spec"]["validations"]} == {"Forbidden"}
        resources += policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"]
    assert resources == ["resourceslices", "resourceclaims/status"]


def test_dra_configuration_is_understood_and_all_of_it_served_so() -> None:
    config = parse_config(config_text(DRA / "config.patch.yaml"), "config.patch.yaml")
    assert {resource.serve for resource in config.resources} == {"dra"}
    assert len(config.resources) == 3


def test_dra_examples_name_classes_there_are() -> None:
    classes = {
        each["metadata"]["name"]
        for name in ("classes.yaml", "monitor-class.yaml")
        for each in documents(DRA / name)
    }
    for path in sorted((PROJECT / "examples" / "dra").glob("*.yaml")):
        template, pod = documents(path)
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        asked = request["firstAvailable"] if "firstAvailable" in request else [request["exactly"]]
        assert {each["deviceClassName"] for each in asked} <= classes
        assert pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == template["metadata"]["name"]


@pytest.mark.parametrize("folder", [CARDS, DRA], ids=lambda folder: folder.name)
def test_whoever_tells_schedulers_of_memory_sees_where_the_kernel_does(
    folder: Path, container: dict[str, Any]
) -> None:
    (document,) = documents(folder / "daemonset.patch.yaml")
    (patched,) = document["spec"]["template"]["spec"]["containers"]
    (mount,) = (one for one in patched["volumeMounts"] if one["name"] == "cgroups")
    assert mount["mountPath"] == f"{parameters(container)['host_root']}/{CGROUPS}"
    assert _mounted(folder / "daemonset.patch.yaml")[mount["mountPath"]] == f"/{CGROUPS}"
    assert (mount["readOnly"], mount["recursiveReadOnly"]) == (True, "IfPossible")
    assert "daemonset.patch.yaml" in (folder / "kustomization.yaml").read_text()


def test_tpu_claims_find_the_folders_that_the_device_plugin_has() -> None:
    """Without them libtpu's description is not seen, and containers go without a folder for its logs."""
    paths = [_mounted(folder / "daemonset.patch.yaml") for folder in (TPU, DRA)]
    assert paths[0].items() <= paths[1].items()


def _mounted(patch: Path) -> dict[str, str]:
    """Host paths by the path in the agent's container."""
    (document,) = documents(patch)
    spec = document["spec"]["template"]["spec"]
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    return {one["mountPath"]: hosts[one["name"]] for one in spec["containers"][0]["volumeMounts"]}


def test_dra_may_write_the_events_that_tpus_write_and_has_room_for_the_api_server() -> None:
    roles = [
        next(one for one in documents(folder / "rbac.yaml") if one["kind"] == "Role") for folder in (TPU, DRA)
    ]
    assert roles[0]["rules"] == roles[1]["rules"]
    assert {role["metadata"]["namespace"] for role in roles} == {"default"}
    limits = [
        patch["spec"]["template"]["spec"]["containers"][0]["resources"]
        for folder in (ASSIGNMENTS, DRA)
        for patch in documents(folder / "daemonset.patch.yaml")
    ]
    assert limits[0] == limits[1]


def test_policies_scheduler_and_chart_count_the_same_resources_as_cards() -> None:
    """The first variable, in both alike: by its place one patch changes it, by its text the chart does."""
    policies = PROJECT / "deploy" / "policies"
    said = f"expression: '{json.dumps(CARD_RESOURCES)}'"
    for name in ("gate.yaml", "requests.yaml"):
        policy, _ = documents(policies / name)
        first = policy["spec"]["variables"][0]
        assert (first["name"], json.loads(first["expression"])) == ("cards", list(CARD_RESOURCES))
        assert (policies / name).read_text().count(said) == 1
    values = yaml.safe_load((PROJECT / "deploy" / "chart" / "values.yaml").read_text())
    assert values["cards"]["resources"] == list(CARD_RESOURCES)


def test_gate_looks_at_every_pod_that_asks_for_what_it_counts() -> None:
    """Match conditions cannot use variables: the prefix there has to be that of all resources."""
    policy, _ = documents(PROJECT / "deploy" / "policies" / "gate.yaml")
    _, condition = policy["spec"]["matchConditions"]
    prefixes = set(re.findall(r'startsWith\("([^"]+)"\)', condition["expression"]))
    assert prefixes == {f"{name.partition('/')[0]}/" for name in CARD_RESOURCES}
