"""The provisioner's settings file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from accelet.provisioner.demand.selectors import COPIED_LABELS, who_writes
from accelet.provisioner.demand.slices import Demand
from accelet.provisioner.pools.tiers import Tier, TierError
from accelet.runtime.settings import Contradiction, read_settings_file

ProviderName = Literal["simulated", "gke", "cluster-api"]

_Name = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", description="a name of [a-z0-9.-], at most 253"
    ),
]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=86400)]
_LabelKey = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$",
        description="the key of a label, as example.com/team",
    ),
]


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the machines of a pool are given, and no author of a pod may choose. Empty is GKE's default.

    `networks` are `NETWORK:SUBNETWORK`. `version` is the nodes' GKE version. `confidential_storage` takes a
    disk type that can be encrypted so, and a `boot_disk_kms_key`. Secure boot brings integrity monitoring.
    `flex_start_run_s` is how long machines of flex-start run, then GKE ends them: ten minutes to seven days.
    """

    service_account: str = ""
    disk_type: str = ""
    disk_size_gb: Annotated[int, msgspec.Meta(ge=15, le=65536)] | None = None
    boot_disk_kms_key: str = ""
    secondary_boot_disk: str = ""
    networks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    secure_boot: bool = False
    confidential_storage: bool = False
    version: str = ""
    pods_per_node: Annotated[int, msgspec.Meta(ge=8, le=256)] = 15
    flex_start_run_s: Annotated[int, msgspec.Meta(ge=600, le=604800)] | None = None

    def problems(self) -> Sequence[Contradiction]:
        mistakes = [
            Contradiction(("networks", index), "must be NETWORK:SUBNETWORK")
            for index, network in enumerate(self.networks)
            if network.count(":") != 1 or not all(network.split(":"))
        ]
        if self.confidential_storage and not self.boot_disk_kms_key:
            mistakes.append(Contradiction(("confidential_storage",), "needs a boot_disk_kms_key"))
        return mistakes


class GkeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of GKE. `location` is a zone, or a region. `{topology}` in `workload_policy` is replaced.

    `adopt`: pools of the original tpu-provisioner are taken over for the Jobs that they were made for.
    """

    endpoint: str = "https://container.googleapis.com"

    project: str = ""
    location: str = ""
    cluster: str = ""
    workload_policy: str = "accelet-{topology}"
    adopt: bool = False
    node: NodeSettings = NodeSettings()


class SimulatedCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """How many slices a zone has in a tier; places that are not named have any number."""

    tier: str
    slices: Annotated[int, msgspec.Meta(ge=0)]
    zone: str = ""


class SimulatedPools(msgspec.Struct, frozen=True, kw_only=True):
    """Pools of Nodes without machines, kept as ConfigMaps; how many seconds each thing takes."""

    namespace: _Name = "kube-system"
    create_s: _Seconds = 3.0
    join_s: _Seconds = 1.0
    delete_s: _Seconds = 1.0
    capacity: tuple[SimulatedCapacity, ...] = ()


class NamespaceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many slices and chips each namespace may have at one time."""

    slices: Annotated[int, msgspec.Meta(ge=0)] | None = None
    chips: Annotated[int, msgspec.Meta(ge=0)] | None = None


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many slices and chips there may be at one time, pools that come and go included.

    Room is kept for the set that waits longest, `reserve_s` at a time with as long between: 0 for never.
    """

    slices: Annotated[int, msgspec.Meta(ge=0)] | None = None
    chips: Annotated[int, msgspec.Meta(ge=0)] | None = None
    per_namespace: NamespaceLimits = NamespaceLimits()
    reserve_s: _Seconds = 21600.0


class TemplateRef(msgspec.Struct, frozen=True, kw_only=True):
    """A template object of Cluster API that machines are made of."""

    api_group: str
    kind: str
    name: str


class ClusterApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How Cluster API makes machines. `{machine_type}` and `{topology}` in a template's name are replaced."""

    namespace: _Name = "default"
    cluster: _Name = "cluster"
    version: str = ""
    bootstrap: TemplateRef = TemplateRef(
        api_group="bootstrap.cluster.x-k8s.io", kind="KubeadmConfigTemplate", name="{machine_type}"
    )
    infrastructure: TemplateRef = TemplateRef(
        api_group="infrastructure.cluster.x-k8s.io", kind="MachineTemplate", name="{machine_type}"
    )


class SliceClass(msgspec.Struct, frozen=True, kw_only=True):
    """What a job may choose by name with the annotation accelet.dev/slice-class.

    `namespaces` are those whose jobs may; none named are all.
    """

    name: _Name
    namespaces: tuple[_Name, ...] = ()
    tiers: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    node: NodeSettings = NodeSettings()

    def problems(self) -> Sequence[Contradiction]:
        return _judge_tiers(self.tiers)


class ProvisionerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set.

    Without `tiers` and `zones` the pods' node selectors choose. `node_labels` are labels that pods may
    insist on and have put on their nodes, `pod_labels` those of their own that are copied there. `paused`
    begins nothing new, and goes on giving back. `poll_s` is how often the pools are listed while some come
    or go, `most_operations` how many may at one time. The other times are those of
    `accelet.provisioner.deciding.view.Times`.
    """

    version: Literal["v1"]
    provider: ProviderName = "simulated"
    demand: Demand = "opt-in"
    tiers: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    order: Literal["tier-first", "zone-first"] = "tier-first"
    node_labels: tuple[_LabelKey, ...] = ()
    pod_labels: tuple[_LabelKey, ...] = ()
    classes: tuple[SliceClass, ...] = ()
    limits: LimitSettings = LimitSettings()
    paused: bool = False
    most_operations: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4
    poll_s: Annotated[float, msgspec.Meta(ge=0.05, le=600)] = 10.0
    join_s: _Seconds = 900.0
    flex_start_s: Annotated[float, msgspec.Meta(ge=0, le=2592000)] = 86400.0
    hold_s: _Seconds = 600.0
    repair_s: _Seconds = 1200.0
    grace_s: _Seconds = 60.0
    settle_s: _Seconds = 5.0
    park_s: _Seconds = 0.0
    lag_s: _Seconds = 60.0
    rest_s: _Seconds = 300.0
    refused_s: _Seconds = 900.0
    slow_s: _Seconds = 1800.0
    evict_s: _Seconds | None = None
    unused_s: _Seconds = 900.0
    release_unused_s: _Seconds | None = None
    gke: GkeSettings = GkeSettings()
    simulated: SimulatedPools = SimulatedPools()
    cluster_api: ClusterApiSettings = ClusterApiSettings()

    def problems(self) -> Sequence[Contradiction]:
        mistakes = list(_judge_tiers(self.tiers))
        names = [one.name for one in self.classes]
        mistakes += [
            Contradiction(("classes", index), f"the class {name} is given twice")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        mistakes += [
            Contradiction((field, index), f"{key}: only {writer} puts this label on nodes")
            for field in ("node_labels", "pod_labels")
            for index, key in enumerate(getattr(self, field))
            if (writer := who_writes(key)) is not None
        ]
        return mistakes

    def lacks(self) -> Sequence[str]:
        """What the provider still has to be told before it can run; a plan needs none of it."""
        if self.provider != "gke":
            return ()
        names = ("project", "location", "cluster")
        missing = [f"gke.{name} is missing" for name in names if not getattr(self.gke, name)]
        if self.gke.location.count("-") == 1 and not self.zones:
            missing.append("zones are missing: the cluster's location is a region")
        return missing

    @property
    def allowed_labels(self) -> frozenset[str]:
        """The labels that a request may have on its nodes."""
        return frozenset((*self.node_labels, *self.pod_labels)) | COPIED_LABELS

    def class_named(self, name: str | None) -> SliceClass | None:
        """The class of that name, the general settings as one for None; None if there is no such class."""
        if name is None:
            return SliceClass(name="default", tiers=self.tiers, zones=self.zones, node=self.gke.node)
        return next((one for one in self.classes if one.name == name), None)


DEFAULT_SETTINGS = ProvisionerSettings(version="v1")


def read_settings(file: Path) -> ProvisionerSettings:
    """The settings in a file.

    Raises:
        SettingsError: they are wrong, or the file cannot be read; has every mistake.
    """
    return read_settings_file(file, ProvisionerSettings)


def _judge_tiers(tiers: Sequence[str]) -> list[Contradiction]:
    mistakes = []
    for index, text in enumerate(tiers):
        try:
            Tier.parse(text)
        except TierError as error:
            mistakes.append(Contradiction(("tiers", index), str(error)))
    return mistakes
