"""The kinds of objects in deploy/, for tests that apply them with the product's own client."""

from collections.abc import Mapping

from accelet.kube.apiresources import CONFIG_MAPS, ApiResource

_ADMISSION, _RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"

RESOURCES: Mapping[str, ApiResource] = {
    "CustomResourceDefinition": ApiResource(
        "CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io"
    ),
    "ServiceAccount": ApiResource("ServiceAccount", "serviceaccounts"),
    "ClusterRole": ApiResource("ClusterRole", "clusterroles", _RBAC),
    "ClusterRoleBinding": ApiResource("ClusterRoleBinding", "clusterrolebindings", _RBAC),
    "Role": ApiResource("Role", "roles", _RBAC),
    "RoleBinding": ApiResource("RoleBinding", "rolebindings", _RBAC),
    "ConfigMap": CONFIG_MAPS,
    "PodDisruptionBudget": ApiResource("PodDisruptionBudget", "poddisruptionbudgets", "policy"),
    "Deployment": ApiResource("Deployment", "deployments", "apps"),
    "NetworkPolicy": ApiResource("NetworkPolicy", "networkpolicies", "networking.k8s.io"),
    "ValidatingAdmissionPolicy": ApiResource(
        "ValidatingAdmissionPolicy", "validatingadmissionpolicies", _ADMISSION
    ),
    "ValidatingAdmissionPolicyBinding": ApiResource(
        "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _ADMISSION
    ),
}
