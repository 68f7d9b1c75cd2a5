"""The stages of JobSets, Jobs and StatefulSets in CEL: workloads.py, as the API server evaluates it."""

from typing import Final

from accelet.provisioner.demand.selectors import ACCELERATOR, TOPOLOGY
from accelet.provisioner.identity import sentences
from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import (
    COORDINATOR,
    FIRST_SLICE,
    SINGLE_SLICE,
    SLICES,
    TPU_ENV,
    WORKERS,
)
from accelet.provisioner.identity.worker import SUBDOMAIN_FIELDS
from release.identity import expressions as cel
from release.identity.expressions import TemplateText, first, sentence, text
from release.identity.podstage import half, template_variables
from release.identity.policies import Stage

_SAID: Final = TemplateText()
_TEMPLATE: Final = "object.spec.template"
_STAMP: Final = f'{_TEMPLATE}.?metadata.?annotations[?"{WORKERS}"].orValue("")'
_JOB: Final = TemplateText(
    accelerator="j.accelerator",
    topology="j.topology",
    amounts="j.amounts",
    chips="variables.chips[i]",
    hosts="variables.hosts[i]",
    own="j.own",
    left_alone="j.leftAlone",
)


def jobs() -> Stage:
    """Jobs are stamped with the number of their workers, and a sentence where no slice could run them."""
    completions, parallelism = "object.spec.?completions", "object.spec.?parallelism.orValue(1)"
    is_stamped = (
        "variables.indexed && !variables.leftAlone && variables.pods >= 1"
        f" && variables.pods <= {host_table().most_hosts}"
    )
    is_stale = (
        f'variables.indexed && !variables.leftAlone && {_STAMP} != "" && {_STAMP} != string(variables.pods)'
    )
    nameless = sentence(sentences.NAMELESS, field=text(SUBDOMAIN_FIELDS["job"]))
    subdomain = f'{_TEMPLATE}.spec.?subdomain.orValue("")'
    reason = first(
        ('request.operation == "UPDATE" && !variables.changed', '""'),
        (
            f'request.operation == "UPDATE" && {is_stale}',
            sentence(sentences.STALE, workers=cel.shown(_STAMP), completions="variables.pods"),
        ),
        *cel.job(
            _SAID, pods="variables.pods", parallelism="variables.parallelism", indexed="variables.indexed"
        ),
        (f'variables.indexed && variables.pods > 1 && {subdomain} == ""', nameless),
    )
    return Stage(
        name="jobs",
        group="batch",
        version="v1",
        asks=f"{cel.containers(_TEMPLATE)}.size() > 0",
        variables={
            **template_variables(_TEMPLATE),
            "indexed": 'object.spec.?completionMode.orValue("") == "Indexed"',
            "parallelism": parallelism,
            "pods": f"{completions}.orValue({parallelism})",
            "changed": _changed(("completions", "parallelism")),
        },
        written=_apply(is_stamped, "string(variables.pods)"),
        style="ApplyConfiguration",
        refused=reason,
        warned=_warned("variables.indexed && variables.pods > 1"),
        is_judged_on_update=True,
    )


def stateful_sets() -> Stage:
    """StatefulSets of larger slices are stamped with the number of their workers."""
    hosts = "variables.hosts"
    reason = first(
        ('request.operation == "UPDATE" && !variables.changed', '""'),
        *cel.hardware(_SAID),
        (f"{hosts} < 2", '""'),
        (
            f"!(variables.replicas in [0, {hosts}])",
            sentence(
                sentences.PODS,
                topology="variables.topology",
                chips=cel.chips_shown(_SAID),
                needed=cel.counted(hosts, "pod"),
                kind=text("StatefulSet"),
                pods="variables.replicas",
            ),
        ),
        (
            'object.spec.?serviceName.orValue("") == ""',
            sentence(sentences.NAMELESS, field=text(SUBDOMAIN_FIELDS["statefulset"])),
        ),
    )
    is_stamped = f"!variables.leftAlone && {hosts} > 1 && variables.replicas in [0, {hosts}]"
    return Stage(
        name="statefulsets",
        group="apps",
        version="v1",
        asks=f"{cel.containers(_TEMPLATE)}.size() > 0",
        variables={
            **template_variables(_TEMPLATE),
            "replicas": "object.spec.?replicas.orValue(1)",
            "changed": _changed(("replicas",)),
        },
        written=_apply(is_stamped, f"string({hosts})"),
        style="ApplyConfiguration",
        refused=reason,
        warned=_warned("variables.replicas > 1"),
        is_judged_on_update=True,
    )


def job_sets() -> Stage:
    """JobSets are stamped with the numbers of their slices.

    A queue that lets a JobSet run may say only then of which TPUs it is. JobSet's controller takes over
    annotations into the Jobs of one that was suspended (JobSet 0.12, `resumeJob`), and of no other.
    """
    template = "r.template.spec.template"
    asks = f"object.spec.?replicatedJobs.orValue([]).exists(r, {cel.containers(template)}.size() > 0)"
    return Stage(
        name="jobsets",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        asks=asks,
        variables={
            "jobs": _job_records(template),
            "chips": f"variables.jobs.map(j, {cel.chips('j.amounts')})",
            "hosts": f"variables.jobs.transformList(i, j, {cel.hosts(_JOB)})",
            "named": "object.spec.?network.?enableDNSHostnames.orValue(true)",
        },
        writes={"stamps": _stamps()},
        written=_stamp_patch(),
        style="JSONPatch",
        refused=_job_set_reason(),
        warned=_job_set_warning(),
        written_again=_is_let_run(template),
    )


def _is_let_run(template: str) -> str:
    """Whether a suspended JobSet is told of which TPUs it is, or of which others than before."""
    told = f"[{cel.accelerator(template)}, {cel.topology(template)}]"
    pairs = [f"{which}.spec.?replicatedJobs.orValue([]).map(r, {told})" for which in ("object", "oldObject")]
    return f"oldObject.spec.?suspend.orValue(false)\n  && {pairs[0]}\n  != {pairs[1]}"


def _changed(fields: tuple[str, ...]) -> str:
    """Whether an update changes what is judged: an old object that would be refused can still be ended."""
    pairs = [f"object.spec.?{name} != oldObject.spec.?{name}" for name in fields]
    for which in ("?nodeSelector", "?affinity.?nodeAffinity"):
        said = f"{{}}.spec.template.spec.{which}"
        pairs.append(f"{said.format('object')} != {said.format('oldObject')}")
    pairs.append(f"variables.amounts != {cel.amounts('oldObject.spec.template')}")
    return 'request.operation == "UPDATE" && (\n  ' + "\n  || ".join(pairs) + ")"


def _apply(condition: str, value: str) -> str:
    written = (
        "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{\n"
        f'  annotations: {{"{WORKERS}": {value}}}}}}}}}}}'
    )
    return f"{condition}\n  ? {written}\n  : Object{{}}"


def _warned(numbered: str) -> str:
    missing = f'variables.accelerator == "" ? {text(ACCELERATOR)} : {text(TOPOLOGY)}'
    return first(
        ("variables.leftAlone || variables.own", '""'),
        (f"{numbered} && !{_SAID.is_known}", sentence(sentences.UNCHECKED, missing=missing)),
        (half(), text(sentences.HALF)),
    )


def _job_records(template: str) -> str:
    spec = "r.template.spec"
    parallelism = f"{spec}.?parallelism.orValue(1)"
    fields = {
        "name": "r.name",
        "replicas": "r.?replicas.orValue(1)",
        "group": 'r.?groupName.orValue("") == "" ? "default" : r.groupName',
        "accelerator": cel.accelerator(template),
        "topology": cel.topology(template),
        "amounts": cel.amounts(template),
        "leftAlone": f"{cel.containers(template)}.size() == 0 || {cel.left_alone(template)}",
        "own": cel.is_own(cel.containers(template)),
        "single": f'{template}.?metadata.?annotations[?"{TPU_ENV}"].orValue("") == "{SINGLE_SLICE}"',
        "indexed": f'{spec}.?completionMode.orValue("Indexed") == "Indexed"',
        "parallelism": parallelism,
        "pods": f"{spec}.?completions.orValue({parallelism})",
        "half": half().replace("variables.containers", cel.containers(template)),
    }
    lines = ",\n".join(f'  "{name}": dyn({value})' for name, value in fields.items())
    return f"object.spec.?replicatedJobs.orValue([]).map(r, {{\n{lines}\n}})"


def _mate(record: str) -> str:
    return f"{record}.group == j.group && !{record}.leftAlone"


def _slices() -> str:
    return f"variables.jobs.filter(m, {_mate('m')}).map(m, int(m.replicas)).sum()"


def _alike() -> str:
    same = (
        "m.accelerator == j.accelerator && m.topology == j.topology"
        " && variables.chips[k] == variables.chips[i] && variables.hosts[k] > 1 && m.amounts.size() == 1"
    )
    return f"variables.jobs.transformList(k, m, {_mate('m')}, {same}).all(x, x)"


def _stamps() -> str:
    """For each replicatedJob how many slices, its first, and the leader's name; all empty without any."""
    before = f"variables.jobs.transformList(k, m, k < i && {_mate('m')}, int(m.replicas)).sum()"
    leader = f"variables.jobs.filter(m, {_mate('m')} && int(m.replicas) > 0)[0].name"
    single = f"variables.jobs.exists(m, {_mate('m')} && m.single)"
    is_stamped = (
        f"!j.leftAlone && {_slices()} > 1 && {_slices()} <= {host_table().most_hosts}"
        f"\n  && {_alike()}\n  && !{single}"
    )
    return (
        f"variables.jobs.transformList(i, j,\n{is_stamped}\n"
        f"  ? [string({_slices()}), string({before}), string({leader})] : [])"
    )


def _stamp_patch() -> str:
    path = '"/spec/replicatedJobs/" + string(i) + "/template/spec/template/metadata"'
    metadata = "object.spec.replicatedJobs[i].template.spec.template.?metadata"
    ops = [
        _added(f"!{metadata}.hasValue()", path, "dyn({})"),
        _added(f"!{metadata}.?annotations.hasValue()", f'{path} + "/annotations"', "dyn({})"),
    ]
    for place, name in enumerate((SLICES, FIRST_SLICE, COORDINATOR)):
        key = name.replace("/", "~1")
        ops.append(_added("true", f'{path} + "/annotations/{key}"', f"s[{place}]"))
    return "\n+ ".join(ops)


def _added(condition: str, path: str, value: str) -> str:
    """One operation for each replicatedJob that is stamped."""
    operation = f'JSONPatch{{op: "add", path: {path}, value: {value}}}'
    return f"variables.stamps.transformList(i, s, s.size() > 0 && {condition},\n  {operation})"


def _job_set_reason() -> str:
    steps = [
        *cel.job(_JOB, pods="j.pods", parallelism="j.parallelism", indexed="j.indexed"),
        (f"!variables.named && {_JOB.hosts} > 1", text(sentences.HIDDEN)),
    ]
    return _first_of(first(*steps))


def _job_set_warning() -> str:
    missing = f'j.accelerator == "" ? {text(ACCELERATOR)} : {text(TOPOLOGY)}'
    return _first_of(
        first(
            ("j.leftAlone || j.own", '""'),
            (
                f"j.indexed && j.pods > 1 && !{_JOB.is_known}",
                sentence(sentences.UNCHECKED, missing=missing),
            ),
            ("j.half", text(sentences.HALF)),
            (f"!j.single && {_slices()} > 1 && !{_alike()}", text(sentences.UNLIKE)),
        )
    )


def _first_of(ladder: str) -> str:
    """The first replicatedJob's sentence, with its name."""
    reasons = f'variables.jobs.transformList(i, j, [string(j.name), {ladder}]).filter(p, p[1] != "")'
    return f'{reasons}\n.map(p, "replicatedJob " + p[0] + ": " + p[1]).join("\\n").split("\\n")[0]'
