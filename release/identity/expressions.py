"""The rules of this folder in CEL, for the API server; each function returns the text of an expression."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Final

from accelet.provisioner.demand.selectors import ACCELERATOR, TOPOLOGY
from accelet.provisioner.identity import sentences
from accelet.provisioner.identity.hardware import known_accelerators
from accelet.provisioner.identity.names import (
    APP,
    HOSTNAMES,
    KUBERAY,
    LEADER_WORKER_SET,
    LONGEST_SHOWN,
    OFF,
    TPU,
    TPU_ENV,
    UNSET,
    WORKER_ID,
)

COUNT: Final = "^[1-9][0-9]{0,3}$"
_WIDTH: Final = 100
NUMBER: Final = "^(0|[1-9][0-9]{0,3})$"


@dataclass(frozen=True, slots=True)
class TemplateText:
    """What a template says, each as an expression: `amounts` of its TPU containers, `hosts` of its slice."""

    accelerator: str = "variables.accelerator"
    topology: str = "variables.topology"
    amounts: str = "variables.amounts"
    chips: str = "variables.chips"
    hosts: str = "variables.hosts"
    own: str = "variables.own"
    left_alone: str = "variables.leftAlone"

    @property
    def is_known(self) -> str:
        return f'({self.accelerator} != "" && {self.topology} != "")'

    @property
    def key(self) -> str:
        return f'{self.accelerator} + " " + {self.topology}'


def text(value: str) -> str:
    """A string as CEL writes it."""
    return json.dumps(value, ensure_ascii=False)


def texts(values: Iterable[str]) -> str:
    """A list of strings."""
    return f"[{', '.join(text(value) for value in values)}]"


def mapping(values: Mapping[str, str] | Mapping[str, int]) -> str:
    """A map, as many entries a line as fit."""
    lines = [""]
    for key, value in values.items():
        entry = f"{text(key)}: {json.dumps(value, ensure_ascii=False)}, "
        if len(lines[-1]) + len(entry) > _WIDTH:
            lines.append("")
        lines[-1] += entry
    return "{" + "\n".join(line.rstrip() for line in lines).rstrip(",") + "}"


def sentence(pattern: str, **parts: str) -> str:
    """A sentence whose parts are expressions."""
    pieces: list[str] = []
    for literal, name, _, _ in Formatter().parse(pattern):
        pieces += [text(literal)] if literal else []
        pieces += [f"string({parts[name]})"] if name else []
    return " + ".join(pieces)


def first(*steps: tuple[str, str]) -> str:
    """What belongs to the first condition that holds, else nothing."""
    return "\n".join(f"{condition}\n  ? {value} :" for condition, value in steps) + '\n""'


def shown(value: str) -> str:
    """Somebody's text, as long as a sentence bears it."""
    return f'({value}.size() <= {LONGEST_SHOWN} ? {value} : {value}.substring(0, {LONGEST_SHOWN}) + "…")'


def counted(number: str, word: str) -> str:
    """`1 pod`, `4 pods`, of an expression."""
    return f'(string({number}) + ({number} == 1 ? " {word}" : " {word}s"))'


def chips_shown(said: TemplateText) -> str:
    """`4 chips`."""
    return f'({said.chips} + ({said.chips} == "1" ? " chip" : " chips"))'


def accelerator(template: str) -> str:
    """What the template's pods select."""
    return _selected(template, ACCELERATOR)


def topology(template: str) -> str:
    """What the template's pods select."""
    return _selected(template, TOPOLOGY)


def _selected(template: str, key: str) -> str:
    """A label by node selector, else by required node affinity: see `demand.selectors.plain`."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = f"{template}.spec.?affinity.?nodeAffinity.?{required}.?nodeSelectorTerms.orValue([])"
    is_plain = f'e.key == "{key}" && e.operator == "In" && e.?values.orValue([]).size() == 1'
    plain = (
        f'{terms}.size() != 1 ? "" : {terms}[0].?matchExpressions.orValue([])'
        f'.filter(e, {is_plain}).map(e, e.values[0])[?0].orValue("")'
    )
    return f'{template}.spec.?nodeSelector[?"{key}"].orValue({plain})'


def amount(container: str) -> str:
    """The chips a container asks for, as text."""
    of = f'{container}.?resources.?%s[?"{TPU}"]'
    return f"string({of % 'limits'}.orValue(dyn({of % 'requests'}.orValue(dyn(0)))))"


def containers(template: str) -> str:
    """The containers that ask for chips, and those beside them."""
    beside = (
        f'{template}.spec.?initContainers.orValue([]).filter(c, c.?restartPolicy.orValue("") == "Always")'
    )
    return f'({template}.spec.containers + {beside}).filter(c, {amount("c")} != "0")'


def amounts(template: str) -> str:
    """What each of them asks for."""
    return f"{containers(template)}.map(c, {amount('c')})"


def chips(listed: str) -> str:
    """The chips of a pod."""
    added = f"string({listed}.map(x, int(x)).sum())"
    return (
        f'({listed}.size() == 1 ? {listed}[0] : {listed}.all(x, x.matches("^[0-9]{{1,3}}$")) ? {added} : "?")'
    )


def hosts(said: TemplateText) -> str:
    """The hosts of a slice, 0 where none is like that."""
    return f'variables.table[?{said.key} + " " + {said.chips}].orValue(0)'


def left_alone(template: str) -> str:
    """Whether others see to it, or nobody is to."""
    labels = f"{template}.?metadata.?labels"
    off = f'{template}.?metadata.?annotations[?"{TPU_ENV}"].orValue("") == "{OFF}"'
    kuberay = f'{labels}[?"{APP}"].orValue("") == "{KUBERAY}"'
    return f'({labels}[?"{LEADER_WORKER_SET}"].hasValue() || {kuberay} || {off})'


def sets_hostnames(env: str, *, alone: str = "false") -> str:
    """Whether the author's names stand."""
    stands = f'{alone} || e.?valueFrom.hasValue() || !(e.?value.orValue("") in {texts(UNSET)})'
    return f'{env}.exists(e, e.name == "{HOSTNAMES}" && ({stands}))'


def sets_id(env: str, *, alone: str = "false") -> str:
    """Whether the author's number stands."""
    replaced = f'{env}.exists(h, h.name == "{HOSTNAMES}") && !{sets_hostnames(env, alone=alone)}'
    value = 'e.?value.orValue("")'
    unset = f'{value} == "" || ({value} == "0" && {replaced})'
    return f'{env}.exists(e, e.name == "{WORKER_ID}" && ({alone} || e.?valueFrom.hasValue() || !({unset})))'


def is_own(listed: str) -> str:
    """Whether each of the containers has an identity of its author's."""
    env = "c.?env.orValue([])"
    return f"{listed}.all(c, {sets_id(env)} && {sets_hostnames(env)})"


def hardware(said: TemplateText) -> list[tuple[str, str]]:
    """Steps of `first`: there is nothing to say, or no slice is like that."""
    accelerator_shown, topology_shown = shown(said.accelerator), shown(said.topology)
    known = text(known_accelerators())
    sizes, topologies = f"variables.sizes[{said.key}]", f"variables.topologies[{said.accelerator}]"
    return [
        (f"{said.left_alone} || {said.amounts}.size() == 0 || {said.own}", '""'),
        (
            f"{said.is_known} && !({said.accelerator} in variables.topologies)",
            sentence(sentences.ACCELERATOR, accelerator=accelerator_shown, known=known),
        ),
        (
            f"{said.is_known} && !(({said.key}) in variables.sizes)",
            sentence(
                sentences.TOPOLOGY,
                accelerator=said.accelerator,
                topology=topology_shown,
                topologies=topologies,
            ),
        ),
        (
            f"{said.is_known} && {said.hosts} == 0",
            sentence(
                sentences.CHIPS,
                accelerator=said.accelerator,
                topology=said.topology,
                sizes=sizes,
                chips=shown(said.chips),
            ),
        ),
        (
            f"{said.is_known} && {said.hosts} > 1 && {said.amounts}.size() > 1",
            sentence(sentences.CONTAINERS, containers=f"{said.amounts}.size()"),
        ),
    ]


def job(said: TemplateText, *, pods: str, parallelism: str, indexed: str) -> list[tuple[str, str]]:
    """Steps of `first`: why no slice could run a Job."""
    needed = counted(said.hosts, "pod")
    return [
        *hardware(said),
        (
            f"{said.is_known} && {said.hosts} > 1 && !{indexed}",
            text(sentences.NOT_INDEXED),
        ),
        (
            f"{said.is_known} && {indexed} && {pods} != {said.hosts}",
            sentence(
                sentences.PODS,
                topology=said.topology,
                chips=chips_shown(said),
                needed=needed,
                kind=text("Job"),
                pods=pods,
            ),
        ),
        (
            f"{indexed} && {parallelism} != 0 && {parallelism} != {pods}",
            sentence(sentences.PARALLELISM, pods=pods, parallelism=parallelism),
        ),
    ]
