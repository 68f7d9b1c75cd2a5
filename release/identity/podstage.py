"""The stage of Pods in CEL: worker.py and its sentences, as the API server evaluates them."""

from typing import Final

from accelet.provisioner.identity import sentences
from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import (
    ADDRESSES,
    COORDINATOR,
    COORDINATOR_ADDRESS,
    FIRST_SLICE,
    HOSTNAMES,
    INDEX,
    JOB_INDEX,
    JOB_SET,
    LONGEST_VARIABLE,
    MEGASCALE_PORT,
    NUM_SLICES,
    POD_INDEX,
    PORT,
    PROCESS_PORT,
    SLICE_ID,
    SLICES,
    SLICES_PORT,
    WORKER_ID,
    WORKERS,
)
from accelet.provisioner.identity.worker import KINDS, SUBDOMAIN_FIELDS
from release.identity import expressions as cel
from release.identity.expressions import TemplateText, first, sentence, text
from release.identity.policies import Stage

_SAID: Final = TemplateText()
_NAME: Final = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


def template_variables(template: str) -> dict[str, str]:
    """What one template says."""
    return {
        "containers": cel.containers(template),
        "accelerator": cel.accelerator(template),
        "topology": cel.topology(template),
        "amounts": f"variables.containers.map(c, {cel.amount('c')})",
        "chips": cel.chips("variables.amounts"),
        "hosts": cel.hosts(_SAID),
        "own": cel.is_own("variables.containers"),
        "leftAlone": cel.left_alone(template),
    }


def pods() -> Stage:
    """Pods get their variables, and a sentence where they could not work."""
    return Stage(
        name="pods",
        group="",
        version="v1",
        asks=f"{cel.containers('object')}.size() > 0",
        variables=template_variables("object") | _place() | {"workers": _workers()},
        writes=_environment(),
        written=_patch(),
        style="JSONPatch",
        refused=_reason(),
        limits=(_too_long(),),
        warned=first(
            ('variables.leftAlone || variables.source != "none"', '""'), (half(), text(sentences.HALF))
        ),
    )


def half() -> str:
    """Whether a container sets one of the two variables that belong together."""
    env = "c.?env.orValue([])"
    return f"variables.containers.exists(c, {cel.sets_id(env)} != {cel.sets_hostnames(env)})"


def annotation(name: str) -> str:
    """An annotation of the pod, empty where unset."""
    return f'object.metadata.?annotations[?"{name}"].orValue("")'


def label(name: str) -> str:
    """A label of the pod, empty where unset."""
    return f'object.metadata.?labels[?"{name}"].orValue("")'


def _place() -> dict[str, str]:
    controller = "variables.controllers[0]"
    is_job = f'{controller}.apiVersion == "batch/v1" && {controller}.kind == "Job"'
    is_set = f'{controller}.apiVersion == "apps/v1" && {controller}.kind == "StatefulSet"'
    is_replicas = f'{controller}.apiVersion == "apps/v1" && {controller}.kind == "ReplicaSet"'
    numbered = f'object.metadata.?annotations[?"{INDEX}"].hasValue()'
    name, before = 'object.metadata.?name.orValue("")', 'variables.owner + "-"'
    ordinal = f'({name}.startsWith({before}) ? {name}.substring(size({before})) : "")'
    stamp = annotation(WORKERS)
    most = host_table().most_hosts
    return {
        "controllers": (
            "object.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))"
        ),
        "owner": f'variables.controllers.size() == 0 ? "" : {controller}.name',
        "source": (
            'variables.controllers.size() == 0 ? "none" :\n'
            f'{is_job} ? ({numbered} ? "job" : "none") :\n'
            f'{is_set} ? "statefulset" :\n'
            f'{is_replicas} ? "none" : "foreign"'
        ),
        "index": (
            f'variables.source == "job" ? {annotation(INDEX)} :\n'
            'variables.source == "statefulset"\n'
            f'  ? object.metadata.?labels[?"{POD_INDEX}"].orValue({ordinal}) : ""'
        ),
        "rank": f"variables.index.matches({text(cel.NUMBER)}) ? int(variables.index) : -1",
        "stamp": (
            f'variables.source in ["job", "statefulset"] && {stamp}.matches({text(cel.COUNT)})\n'
            f"  && int({stamp}) <= {most} ? int({stamp}) : 0"
        ),
        "hostname": 'object.spec.?hostname.orValue("")',
        "subdomain": 'object.spec.?subdomain.orValue("")',
    }


def _workers() -> str:
    named = (
        'variables.hostname == variables.owner + "-" + variables.index && variables.subdomain != ""'
        " && variables.rank >= 0 && variables.rank < variables.stamp"
    )
    return "\n".join(
        (
            "variables.leftAlone || variables.amounts.size() != 1 ? 0 :",
            f"{_SAID.is_known} && variables.hosts == 0 ? 0 :",
            "variables.stamp == 0 ? (variables.hosts == 1 ? 1 : 0) :",
            f"{_SAID.is_known} && variables.stamp != variables.hosts ? 0 :",
            f"variables.stamp == 1 || ({named}) ? variables.stamp : 0",
        )
    )


def _environment() -> dict[str, str]:
    alone = "variables.workers == 1"
    spread = f"variables.accelerator in {cel.texts(host_table().spread)}"
    paths = " +\n".join(
        f'object.spec.?{kind}.orValue([]).transformList(i, c, {beside}{cel.amount("c")} != "0",'
        f' "/spec/{kind}/" + string(i) + "/env")'
        for kind, beside in (
            ("containers", ""),
            ("initContainers", 'c.?restartPolicy.orValue("") == "Always" && '),
        )
    )
    addresses = f'variables.names.replace(",", ":{PROCESS_PORT},") + ":{PROCESS_PORT}"'
    names = (NUM_SLICES, SLICE_ID, COORDINATOR_ADDRESS)
    return {
        "paths": paths,
        "env": "variables.containers.size() == 1 ? variables.containers[0].?env.orValue([]) : []",
        "own_names": "variables.env.map(e, e.name)",
        "identifies": (
            f"variables.workers > 0 && !{cel.sets_hostnames('variables.env', alone=alone)}"
            f" && !{cel.sets_id('variables.env', alone=alone)}"
        ),
        "names": _names(),
        "identity": (
            "!variables.identifies ? [] :\n"
            f"{alone} ? [{_entry(WORKER_ID, text('0'))}, {_entry(HOSTNAMES, text('localhost'))}] :\n"
            f"[{_entry(WORKER_ID, 'variables.index')}, {_entry(HOSTNAMES, 'variables.names')}]"
        ),
        "processes": (
            f"variables.identifies && variables.workers > 1 && {spread}\n"
            f"  && !variables.own_names.exists(n, n in {cel.texts((ADDRESSES, PORT))}) ?\n"
            f"[{_entry(ADDRESSES, addresses)}, {_entry(PORT, text(PROCESS_PORT))}] : []"
        ),
        **_slices(),
        "megascale": (
            "variables.slices < 2 || variables.workers < 2\n"
            f"  || variables.own_names.exists(n, n in {cel.texts(names)}) ? [] :\n"
            f"[{_entry(NUM_SLICES, 'string(variables.slices)')},"
            f" {_entry(SLICE_ID, 'string(variables.slice)')},\n"
            f" {_entry(COORDINATOR_ADDRESS, _coordinator())}]\n"
            f'  + ("{MEGASCALE_PORT}" in variables.own_names ? [] :'
            f" [{_entry(MEGASCALE_PORT, text(SLICES_PORT))}])"
        ),
        "given": "variables.identity + variables.processes + variables.megascale",
        "kept": (
            "variables.env.filter(e, !(variables.identifies && "
            f"e.name in {cel.texts((WORKER_ID, HOSTNAMES))})).map(e, dyn(e))"
        ),
    }


def _slices() -> dict[str, str]:
    count, start, index = annotation(SLICES), annotation(FIRST_SLICE), label(JOB_INDEX)
    numbered = f"{start}.matches({text(cel.NUMBER)}) && {index}.matches({text(cel.NUMBER)})"
    named = f"{annotation(COORDINATOR)}.matches({text(_NAME)}) && {label(JOB_SET)}.matches({text(_NAME)})"
    return {
        "slice": f"{numbered} ? int({start}) + int({index}) : -1",
        "slices": (
            f'variables.source == "job" && {count}.matches({text(cel.COUNT)})\n'
            f"  && int({count}) <= {host_table().most_hosts} && {named}\n"
            f"  && variables.slice >= 0 && variables.slice < int({count}) ? int({count}) : 0"
        ),
    }


def _coordinator() -> str:
    return f'{label(JOB_SET)} + "-" + {annotation(COORDINATOR)} + "-0-0." + variables.subdomain'


def _names() -> str:
    """The names of all workers; the text between two numbers is joined in one go, as there are thousands."""
    between = '"." + variables.subdomain + "," + variables.owner + "-"'
    numbers = f"lists.range(variables.workers).map(i, string(i)).join({between})"
    return f'variables.owner + "-" + {numbers} + "." + variables.subdomain'


def _entry(name: str, value: str) -> str:
    return f'dyn({{"name": "{name}", "value": {value}}})'


def _patch() -> str:
    return (
        "variables.given.size() == 0 ? [] :\n"
        '[JSONPatch{op: "add", path: variables.paths[0], value: dyn(variables.given + variables.kept)}]'
    )


def _reason() -> str:
    known = f"{_SAID.is_known} && variables.hosts"
    kinds = cel.mapping({str(source): kind for source, kind in KINDS.items()})
    fields = cel.mapping({str(source): place for source, place in SUBDOMAIN_FIELDS.items()})
    wanted = 'variables.owner + "-" + variables.index'
    return first(
        *cel.hardware(_SAID),
        (
            f'{known} > 1 && variables.source == "none"',
            sentence(
                sentences.ALONE,
                topology="variables.topology",
                chips=cel.chips_shown(_SAID),
                needed=cel.counted("variables.hosts", "worker"),
            ),
        ),
        ("variables.stamp == 0", '""'),
        (
            f"{known} != variables.stamp",
            sentence(
                sentences.PODS,
                topology="variables.topology",
                chips=cel.chips_shown(_SAID),
                needed=cel.counted("variables.hosts", "pod"),
                kind=f"{kinds}[variables.source]",
                pods="variables.stamp",
            ),
        ),
        ("variables.stamp == 1", '""'),
        (
            "variables.rank < 0 || variables.rank >= variables.stamp",
            sentence(sentences.NUMBER, index=cel.shown("variables.index"), pods="variables.stamp"),
        ),
        ('variables.subdomain == ""', sentence(sentences.NAMELESS, field=f"{fields}[variables.source]")),
        (
            f"variables.hostname != {wanted}",
            sentence(
                sentences.HOSTNAME,
                wanted=wanted,
                hostname='variables.hostname == "" ? "empty" : variables.hostname',
            ),
        ),
    )


def _too_long() -> str:
    size = 'size(bytes(e.name + "=" + e.?value.orValue("")))'
    long = f"variables.containers.map(c, c.?env.orValue([]).filter(e, {size} > {LONGEST_VARIABLE}))"
    entry = "variables.long[0][0]".replace("variables.long", f"({long}).filter(l, l.size() > 0)")
    name, value = f"{entry}.name", f'{entry}.?value.orValue("")'
    return first(
        (f"variables.leftAlone || {long}.all(l, l.size() == 0)", '""'),
        (
            "true",
            sentence(
                sentences.TOO_LONG,
                name=cel.shown(name),
                bytes=f'size(bytes({name} + "=" + {value}))',
            ),
        ),
    )
