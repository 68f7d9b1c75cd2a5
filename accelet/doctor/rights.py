"""What each part of accelet must be allowed to do, right by right; a test sees that deploy/ gives each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accelet.agent.config import AgentConfig

NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource. `namespace` empty is the whole cluster, `name` empty all objects."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{' ' + self.name if self.name else ''}{where}"

    def moved_to(self, namespace: str) -> "Right":
        """The same right where the process runs in this namespace."""
        return replace(self, namespace=namespace) if self.namespace else self

    def attributes(self) -> dict[str, str]:
        """As `resourceAttributes` of a SubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        said = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {key: value for key, value in said.items() if value}


def _rights(resource: str, verbs: str, group: str = "", namespace: str = "", name: str = "") -> list[Right]:
    return [Right(verb, resource, group, namespace, name) for verb in verbs.split()]


ASSIGNMENTS = (
    *_rights("pods", "get list watch"),
    *_rights("nodes", "get"),
    *_rights("events", "create patch", "events.k8s.io"),
)
CARDS = (*_rights("nodes", "get patch"), *_rights("nodes/status", "patch"))
NODE_LABELS = (*_rights("nodes", "get"),)
_ADMISSION = "admissionregistration.k8s.io"


def _reads_policies(*names: str) -> tuple[Right, ...]:
    return tuple(
        right
        for resource in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
        for name in names
        for right in _rights(resource, "get", _ADMISSION, name=name)
    )


POLICIES = _reads_policies("accelet-assignments")
DRA = (
    *_rights("resourceslices", "get list watch create update delete", "resource.k8s.io"),
    *_rights("resourceclaims", "get", "resource.k8s.io"),
    *_rights("resourceclaims/status", "patch", "resource.k8s.io"),
    *_rights("nodes", "get"),
    *_rights("pods", "get"),
    *_rights("events", "create patch", "events.k8s.io"),
)


def _lease(process: str) -> tuple[Right, ...]:
    group = "coordination.k8s.io"
    return (
        *_rights("leases", "create", group, NAMESPACE),
        *_rights("leases", "get update", group, NAMESPACE, f"accelet-{process}"),
    )


SCHEDULER = (
    *_rights("nodes", "list watch"),
    *_rights("pods", "get list watch patch delete"),
    *_rights("pods/status", "patch"),
    *_rights("configmaps", "get list watch create update delete"),
    *_rights("jobs", "list watch patch", "batch"),
    *_rights("persistentvolumeclaims", "list watch"),
    *_rights("persistentvolumes", "list watch"),
    *_rights("storageclasses", "list watch", "storage.k8s.io"),
    *_rights("events", "create patch", "events.k8s.io"),
    *_reads_policies("accelet-assignments", "accelet-plans"),
    *_lease("scheduler"),
)
"""Without the kinds of other projects, whose absence the scheduler says by itself."""

PROVISIONER = (
    *_rights("slicerequests", "get list watch create patch delete", "accelet.dev"),
    *_rights("slicerequests/status", "patch", "accelet.dev"),
    *_rights("slicerequests/finalizers", "update", "accelet.dev"),
    *_rights("namespaces", "get", name=NAMESPACE),
    *_rights("jobs", "list watch", "batch"),
    *_rights("pods", "list watch"),
    *_rights("services", "list watch"),
    *_rights("nodes", "get list watch patch"),
    *_rights("events", "create patch", "events.k8s.io"),
    *_lease("provisioner"),
)


def agent_rights(config: AgentConfig) -> Iterator[tuple[Right, str]]:
    """Each right once that an agent with this configuration needs, and for what."""
    needs = (
        (any(one.rules.following is not None for one in config.resources), ASSIGNMENTS, "assignments"),
        (config.publish_cards, CARDS, "publishing cards"),
        (config.require_policies, POLICIES, "requiring policies"),
        (any(one.settings.wants_node_labels for one in config.resources), NODE_LABELS, "the Node's labels"),
        (bool(config.served_by("dra")), DRA, "Dynamic Resource Allocation"),
    )
    named: dict[Right, str] = {}
    for is_needed, rights, purpose in needs:
        for right in rights if is_needed else ():
            named.setdefault(right, purpose)
    yield from named.items()
