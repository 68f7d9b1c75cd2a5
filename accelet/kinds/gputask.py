"""GPUTask: a program that is to run as so many ranks on so many cards, and how far it is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from accelet.kinds.definition import GROUP, Column, Definition, Scale
from accelet.kinds.naming import LABEL_VALUE, QUALIFIED_NAME
from accelet.kube.apiresources import ApiResource

GPU_TASKS: Final = ApiResource("GPUTask", "gputasks", GROUP, "v1alpha1")

TaskPhase = Literal[
    "Pending",
    "Suspended",
    "Queued",
    "Waiting",
    "Starting",
    "Running",
    "Restarting",
    "Completed",
    "Failed",
]
Restart = Literal["All", "Rank", "InPlace"]

MOST_RANKS: Final = 4096
MOST_NODES: Final = 64
"""Of the nodes of a task so many are told."""

MOST_WHY: Final = 1024
MOST_DONE: Final = 16384
"""Letters of the ranks that are done: every second one of 4096 takes 9,684."""

MOST_TEXT: Final = 65_536
"""Letters of `command`, `args` and `env` together, so that every task has room for its status.

An API server stores at most 1.5 MiB, and may write six bytes for a letter.
"""

_SOURCE_LETTERS: Final = 512
"""What a `valueFrom` counts among these: the most it may have."""

_LONGEST_LABEL: Final = 317

_Time = Annotated[datetime, Meta(tz=True)]
_Word = Annotated[str, Meta(max_length=63)]
_Name = Annotated[str, Meta(min_length=1, max_length=253)]
_Sentence = Annotated[str, Meta(max_length=MOST_WHY)]
_Text = Annotated[str, Meta(max_length=32768)]
_Path = Annotated[str, Meta(min_length=1, max_length=1024, pattern="^/")]
_LabelKey = Annotated[str, Meta(max_length=_LONGEST_LABEL)]
_LabelValue = Annotated[str, Meta(max_length=63, pattern=LABEL_VALUE)]
_Seconds = Annotated[int, Meta(ge=1, le=31_536_000)]
_Count = Annotated[int, Meta(ge=0)]
_Amount = Annotated[str, Meta(max_length=32)] | int

_Id = Annotated[int, Meta(ge=0, le=2_147_483_647)]
_Capabilities = Annotated[
    tuple[Annotated[str, Meta(pattern="^[A-Z_]{1,32}$", max_length=32)], ...], Meta(max_length=32)
]

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a mount of the container, by its own name

_RESERVED: Final = "^(accelet[.]dev/|gas-|batch[.]kubernetes[.]io/|controller-uid$|job-name$)"
"""Labels and annotations that accelet or the Job controller write."""

_CardNames = Annotated[
    tuple[Annotated[str, Meta(pattern="^card[0-9]{1,4}$", max_length=8)], ...], Meta(max_length=64)
]

NAME_RULE: Final = (
    "self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "a name is at most 50 of a-z, 0-9 and -, begins with a letter, ends with a letter or digit",
)


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the shapes: camel case in JSON, what has its default is left out."""


class TaskCards(_Part, frozen=True, kw_only=True):
    """The cards of each rank. `tiles`, `millicores` and `memory` are of all its cards together.

    `resource` is an extended resource. Parts of cards, and wishes which, are for those of gpu.intel.com.
    """

    resource: Annotated[str, Meta(pattern="^[a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63}$", max_length=317)] = (
        "gpu.intel.com/i915"
    )
    cards: Annotated[int, Meta(ge=1, le=64)] = 1
    tiles: Annotated[int, Meta(ge=1, le=1024)] | None = None
    millicores: Annotated[int, Meta(ge=1, le=64_000)] | None = None
    memory: _Amount | None = None
    same_numa: bool = False
    linked: bool = False
    allow: _CardNames = ()
    deny: _CardNames = ()

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [
            (
                (
                    "self.resource.startsWith('gpu.intel.com/') || !(has(self.tiles) || has(self.millicores)"
                    " || has(self.memory) || (has(self.sameNuma) && self.sameNuma)"
                    " || (has(self.linked) && self.linked) || has(self.allow) || has(self.deny))"
                ),
                "only cards of gpu.intel.com have tiles, millicores, memory and wishes: ask for cards alone",
            ),
            ("!has(self.tiles) || self.tiles % self.cards == 0", "tiles must divide evenly among the cards"),
            (
                (
                    "!(has(self.linked) && self.linked)"
                    " || (self.cards % 2 == 0 && has(self.tiles) && self.tiles == self.cards)"
                ),
                "linked cards come in pairs with one tile of each: an even number of cards, as many tiles",
            ),
            *amount_rules("memory", whole=True),
        ]


class TaskKey(_Part, frozen=True, kw_only=True):
    """One entry of a Secret or a ConfigMap."""

    name: _Name
    key: _Name
    optional: bool = False


class TaskField(_Part, frozen=True, kw_only=True):
    """A field of the pod, as of a pod's `fieldRef`."""

    field_path: Annotated[str, Meta(min_length=1, max_length=512)]


class TaskValueSource(_Part, frozen=True, kw_only=True):
    """Where the value of a variable comes from, as of a pod."""

    secret_key_ref: TaskKey | None = None
    config_map_key_ref: TaskKey | None = None
    field_ref: TaskField | None = None

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [
            (
                (
                    "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
                    ".filter(one, one).size() == 1"
                ),
                "a value comes from one of secretKeyRef, configMapKeyRef and fieldRef",
            )
        ]


class TaskVariable(_Part, frozen=True, kw_only=True):
    """One variable of the environment; `$(NAME)` in its value stands for another."""

    name: _Name
    value: _Text = ""
    value_from: TaskValueSource | None = None

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [("!has(self.valueFrom) || self.value == ''", "a variable has a value or a valueFrom")]


class TaskSource(_Part, frozen=True, kw_only=True):
    """A ConfigMap or a Secret whose entries become variables."""

    config_map: _Name | None = None
    secret: _Name | None = None

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [("has(self.configMap) != has(self.secret)", "name either a configMap or a secret")]


class TaskVolume(_Part, frozen=True, kw_only=True):
    """What the program finds at `mountPath`: a claim, a ConfigMap, a Secret, or an empty folder."""

    mount_path: _Path
    claim: _Name | None = None
    config_map: _Name | None = None
    secret: _Name | None = None
    scratch: Literal["Disk", "Memory"] | None = None
    read_only: bool = False

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [
            (
                (
                    "[has(self.claim), has(self.configMap), has(self.secret), has(self.scratch)]"
                    ".filter(one, one).size() == 1"
                ),
                "a volume is one of claim, configMap, secret and scratch",
            )
        ]


class TaskCapabilities(_Part, frozen=True, kw_only=True):
    """Linux capabilities, as of a container: `ALL`, `IPC_LOCK`."""

    add: _Capabilities = ()
    drop: _Capabilities = ()


class TaskSeccomp(_Part, frozen=True, kw_only=True):
    """The seccomp profile, as of a pod."""

    type: Literal["RuntimeDefault", "Unconfined", "Localhost"]
    localhost_profile: _Name | None = None

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [
            (
                "(self.type == 'Localhost') == has(self.localhostProfile)",
                "localhostProfile belongs to the type Localhost, and to no other",
            )
        ]


class TaskContainerSecurity(_Part, frozen=True, kw_only=True):
    """What the container's processes may do, as of a container; goes before the pod's."""

    run_as_user: _Id | None = None
    run_as_group: _Id | None = None
    run_as_non_root: bool | None = None
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: TaskCapabilities | None = None
    seccomp_profile: TaskSeccomp | None = None


class TaskPodSecurity(_Part, frozen=True, kw_only=True):
    """As whom the pod's processes run, as of a pod."""

    run_as_user: _Id | None = None
    run_as_group: _Id | None = None
    run_as_non_root: bool | None = None
    fs_group: _Id | None = None
    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    supplemental_groups: Annotated[tuple[_Id, ...], Meta(max_length=32)] = ()
    seccomp_profile: TaskSeccomp | None = None


class TaskPullSecret(_Part, frozen=True, kw_only=True):
    """A Secret with which the image is pulled."""

    name: _Name


class TaskContainer(_Part, frozen=True, kw_only=True):
    """The program. `cpu` and `memory` are asked for and not exceeded, and so are `resources`.

    `resources` are others than these two and the cards: `rdma/hca`, `vpc.amazonaws.com/efa`, `hugepages-2Mi`.
    `shmSize` is the size of /dev/shm, which is memory.
    """

    image: Annotated[str, Meta(min_length=1, max_length=512)]
    command: Annotated[tuple[_Text, ...], Meta(max_length=128)] = ()
    args: Annotated[tuple[_Text, ...], Meta(max_length=128)] = ()
    env: Annotated[tuple[TaskVariable, ...], Meta(max_length=128)] = ()
    env_from: Annotated[tuple[TaskSource, ...], Meta(max_length=16)] = ()
    volumes: Annotated[tuple[TaskVolume, ...], Meta(max_length=32)] = ()
    working_dir: _Path | None = None
    cpu: _Amount | None = None
    memory: _Amount | None = None
    resources: Annotated[dict[_LabelKey, _Amount], Meta(max_length=8)] = {}
    shm_size: _Amount | None = None
    security_context: TaskContainerSecurity | None = None

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        letters = (
            "(has(self.command) ? self.command.map(one, one.size()).sum() : 0)"
            " + (has(self.args) ? self.args.map(one, one.size()).sum() : 0)"
            " + (has(self.env) ? self.env.map(one, one.name.size() + one.value.size()"
            f" + (has(one.valueFrom) ? {_SOURCE_LETTERS} : 0)).sum() : 0)"
        )
        return [
            *amount_rules("cpu"),
            *amount_rules("memory"),
            *amount_rules("shmSize"),
            (
                (
                    "!has(self.resources) || self.resources.all(name, name.matches("
                    "'^([a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63}|hugepages-[0-9]+[KMG]i|ephemeral-storage)$'))"
                ),
                (
                    "resources are extended resources as rdma/hca, hugepages-2Mi or ephemeral-storage;"
                    " cpu and memory have fields of their own"
                ),
            ),
            (
                "!has(self.resources) || self.resources.all(name, !name.startsWith('gpu.intel.com/'))",
                "cards and parts of cards are asked for in the task's cards",
            ),
            (
                (
                    "!has(self.resources) || self.resources.all(name,"
                    " isQuantity(string(self.resources[name]))"
                    " && quantity(string(self.resources[name])).isGreaterThan(quantity('0')))"
                ),
                "resources must be amounts above 0, as 1 or 8Gi",
            ),
            (
                (
                    "!has(self.shmSize) || !has(self.volumes)"
                    f" || self.volumes.all(one, one.mountPath != '{SHARED_MEMORY}')"
                ),
                f"{SHARED_MEMORY} is made by shmSize or by a volume",
            ),
            (
                f"{letters} <= {MOST_TEXT}",
                (
                    f"command, args and env may have {MOST_TEXT:,} letters together: put more into a"
                    " ConfigMap, and have it as a volume"
                ),
            ),
        ]


class TaskNetwork(_Part, frozen=True, kw_only=True):
    """How near the ranks must be, whether each has a node of its own, and all of them a domain."""

    required_level: _Word | None = None
    exclusive_level: _Word | None = None
    exclusive: bool = False


class TaskFailure(_Part, frozen=True, kw_only=True):
    """What becomes of the task when a rank fails.

    `restart` says who begins anew: `All` ranks in new pods, the `Rank` alone, or the ranks `InPlace`, in
    their pods. `retries` are incidents, not pods. An exit code among `fatalExitCodes` ends the task at once.
    What was evicted, preempted or lost with its node costs no retry, unless `forgiveDisruptions` is false.
    """

    restart: Restart | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] = 0
    fatal_exit_codes: Annotated[tuple[Annotated[int, Meta(ge=1, le=255)], ...], Meta(max_length=32)] = ()
    forgive_disruptions: bool = True


class TaskMoves(_Part, frozen=True, kw_only=True):
    """Whether the task may be moved to other nodes while it runs, and how often.

    `Never`: only when a person asks for it. `Ask`: a person approves each proposal. `WhenItHelps`: a proposal
    is carried out as it is. The program has `saveSeconds` from when it is asked, then `graceSeconds` from
    SIGTERM. It has run for `minRunSeconds` in one place before, and is moved `maxMoves` times an hour.
    """

    policy: Literal["Never", "Ask", "WhenItHelps"] = "Never"
    save_seconds: Annotated[int, Meta(ge=0, le=3600)] = 0
    min_run_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 600
    max_moves: Annotated[int, Meta(ge=0, le=60)] = 1


class TaskToleration(_Part, frozen=True, kw_only=True):
    """As of a pod."""

    key: Annotated[str, Meta(max_length=_LONGEST_LABEL, pattern=QUALIFIED_NAME)] | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: _LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] | None = None


class GPUTaskSpec(_Part, frozen=True, kw_only=True):
    """What is to run. What cannot be changed later is so of a Job too: make another task instead.

    Without a word about `restart` and `rendezvous`, a task of several ranks restarts all of them, and is told
    where they meet. `success: RankZero`: the task has completed when rank 0 has. Where
    there is no room for all ranks, it may begin with `minReplicas` of the lowest. `graceSeconds` is how long
    the program has to save between SIGTERM and SIGKILL. `template` is YAML or JSON, laid over the pods that
    are made: a pod's `metadata` and `spec`, merged as kubectl's strategic merge patches are.
    """

    container: TaskContainer
    replicas: Annotated[int, Meta(ge=1, le=MOST_RANKS)] = 1
    min_replicas: Annotated[int, Meta(ge=1, le=MOST_RANKS)] | None = None
    cards: TaskCards | None = None
    network: TaskNetwork | None = None
    rendezvous: Literal["None", "Env"] | None = None
    on_failure: TaskFailure | None = None
    success: Literal["AllRanks", "RankZero"] = "AllRanks"
    deadline_seconds: _Seconds | None = None
    ttl_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] | None = None
    grace_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 30
    suspend: bool = False
    priority_class_name: _Name | None = None
    queue: Annotated[str, Meta(min_length=1, max_length=63, pattern=LABEL_VALUE)] | None = None
    service_account_name: _Name | None = None
    node_selector: Annotated[dict[_LabelKey, _LabelValue], Meta(max_length=32)] = {}
    tolerations: Annotated[tuple[TaskToleration, ...], Meta(max_length=32)] = ()
    image_pull_secrets: Annotated[tuple[TaskPullSecret, ...], Meta(max_length=8)] = ()
    runtime_class_name: _Name | None = None
    security_context: TaskPodSecurity | None = None
    pod_labels: Annotated[dict[_LabelKey, _LabelValue], Meta(max_length=16)] = {}
    pod_annotations: Annotated[dict[_LabelKey, Annotated[str, Meta(max_length=512)]], Meta(max_length=8)] = {}
    template: Annotated[str, Meta(max_length=8192)] = ""
    move: TaskMoves | None = None

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        settled = (
            *("container", "cards", "network", "rendezvous", "success", "graceSeconds", "priorityClassName"),
            *("minReplicas", "queue", "serviceAccountName", "nodeSelector", "tolerations"),
            *("imagePullSecrets", "runtimeClassName", "securityContext", "podLabels", "podAnnotations"),
            "template",
        )
        return [
            *((_unchanged(name), f"{name} cannot be changed: make another task") for name in settled),
            *(
                (
                    _same("onFailure", name, otherwise),
                    f"onFailure.{name} cannot be changed: make another task",
                )
                for name, otherwise in (
                    ("restart", "''"),
                    ("fatalExitCodes", "[]"),
                    ("forgiveDisruptions", "true"),
                )
            ),
            (
                (
                    f"({_value('oldSelf', 'onFailure', 'restart', _BY_RANKS)}) != 'Rank'"
                    f" || {_same('onFailure', 'retries', '0')}"
                ),
                (
                    "onFailure.retries cannot be changed where each rank restarts by itself:"
                    " its Job counts them, so make another task"
                ),
            ),
            (
                "!has(self.minReplicas) || self.minReplicas <= self.replicas",
                "minReplicas must not exceed replicas",
            ),
            (
                "!(has(self.queue) && has(self.suspend) && self.suspend)",
                "a task in a queue is held and admitted by the queue: leave suspend out",
            ),
            (
                (
                    "!has(self.onFailure) || !has(self.onFailure.fatalExitCodes)"
                    " || self.onFailure.fatalExitCodes.all(one,"
                    " self.onFailure.fatalExitCodes.exists_one(other, other == one))"
                ),
                "fatalExitCodes must differ from each other",
            ),
            *(
                (
                    (
                        f"!has(self.{field}) || self.{field}.all(key,"
                        f" key.size() <= {_LONGEST_LABEL} && key.matches('{QUALIFIED_NAME}'))"
                    ),
                    f"a key of {field} must be the name of a label, as a.com/model, of at most 317 letters",
                )
                for field in ("nodeSelector", "podLabels", "podAnnotations")
            ),
            *(
                (
                    f"!has(self.{field}) || self.{field}.all(key, !key.matches('{_RESERVED}'))",
                    f"{field}: accelet writes accelet.dev/, gas- and batch.kubernetes.io/",
                )
                for field in ("podLabels", "podAnnotations")
            ),
            (
                (
                    "!has(self.cards) || !has(self.container.resources)"
                    " || !(self.cards.resource in self.container.resources)"
                ),
                "the resource of cards is asked for in cards alone",
            ),
        ]


class TaskConditionShape(_Part, frozen=True, kw_only=True):
    """One condition, as all of Kubernetes has them."""

    type: _Word
    status: Literal["True", "False", "Unknown"]
    last_transition_time: _Time
    reason: _Word = ""
    message: _Sentence = ""
    observed_generation: _Count = 0


class TaskNode(_Part, frozen=True, kw_only=True):
    """A node, and the ranks that are there: `0-3,7`."""

    node: _Name
    ranks: Annotated[str, Meta(max_length=253)]


class GPUTaskStatus(_Part, frozen=True, kw_only=True):
    """How far it is. The attempt is written down before its Job is made.

    `incidents` were counted against the retries, `disruptions` were not. `quickEnds` attempts in a row ended
    soon. `jobUid` is of the Job of this attempt once it was seen; `isGivenUp`: that one is being ended.
    `inPlace` counts its incidents after which ranks started again in their pods: they count as retries too.
    `done` are those of its ranks that ended by themselves, as far as it counts them.
    """

    observed_generation: _Count = 0
    phase: TaskPhase = "Pending"
    why: _Sentence = ""
    attempt: _Count = 0
    incidents: _Count = 0
    disruptions: _Count = 0
    retries_left: _Count = 0
    quick_ends: _Count = 0
    in_place: _Count = 0
    last_end: _Sentence = ""
    replicas: _Count = 0
    ready_replicas: _Count = 0
    succeeded: _Count = 0
    selector: Annotated[str, Meta(max_length=128)] = ""
    job: _Name | None = None
    job_uid: _Word = ""
    is_given_up: bool = False
    done: Annotated[str, Meta(max_length=MOST_DONE)] = ""
    where: Annotated[str, Meta(max_length=280)] = ""
    nodes: Annotated[tuple[TaskNode, ...], Meta(max_length=MOST_NODES)] = ()
    start_time: _Time | None = None
    attempt_time: _Time | None = None
    retry_at: _Time | None = None
    completion_time: _Time | None = None
    conditions: Annotated[tuple[TaskConditionShape, ...], Meta(max_length=8)] = ()


def amount_rules(field: str, *, whole: bool = False) -> list[tuple[str, str]]:
    """That a field, where it is there, is a quantity above 0, and a whole number where it must be."""
    text = f"string(self.{field})"
    rules = [
        (
            f"!has(self.{field}) || (isQuantity({text}) && quantity({text}).isGreaterThan(quantity('0')))",
            f"{field} must be an amount above 0, as 500m or 8Gi",
        )
    ]
    if whole:
        rules.append(
            (
                f"!has(self.{field}) || !isQuantity({text}) || quantity({text}).isInteger()",
                f"{field} must be a whole number of bytes",
            )
        )
    return rules


_BY_RANKS: Final = "oldSelf.replicas == 1 ? 'Rank' : 'All'"


def _unchanged(field: str) -> str:
    """The rule that a field is what it was."""
    both = f"has(self.{field}) == has(oldSelf.{field})"
    return f"{both} && (!has(self.{field}) || self.{field} == oldSelf.{field})"


def _value(root: str, parent: str, field: str, otherwise: str) -> str:
    """The value of `root.parent.field`; `otherwise` where it or its parent is absent."""
    return f"has({root}.{parent}) && has({root}.{parent}.{field}) ? {root}.{parent}.{field} : ({otherwise})"


def _same(parent: str, field: str, otherwise: str) -> str:
    """The rule that a field of a part that may be absent means what it meant."""
    return f"({_value('self', parent, field, otherwise)}) == ({_value('oldSelf', parent, field, otherwise)})"


GPU_TASK_DEFINITION: Final = Definition(
    resource=GPU_TASKS,
    singular="gputask",
    short_names=("gt",),
    spec=GPUTaskSpec,
    status=GPUTaskStatus,
    description="A program that runs as so many ranks on so many cards.",
    rules=(NAME_RULE,),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    selectable=(".status.phase", ".spec.priorityClassName"),
    columns=(
        Column("Phase", ".status.phase"),
        Column("Ranks", ".spec.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Cards", ".spec.cards.cards", "integer"),
        Column("Tiles", ".spec.cards.tiles", "integer"),
        Column("Where", ".status.where"),
        Column("Attempt", ".status.attempt", "integer"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Job", ".status.job", priority=1),
        Column("Queue", ".spec.queue", priority=1),
        Column("Why", ".status.why"),
    ),
)
