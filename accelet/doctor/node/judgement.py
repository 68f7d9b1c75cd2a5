"""All verdicts on a node, of which each cause counts once: what follows from it is a note."""

from collections.abc import Sequence
from dataclasses import replace

from accelet.doctor.findings import Finding, Verdict
from accelet.doctor.node.agent import NO_AGENT, WAITS_FOR_KUBELET, judge_agent
from accelet.doctor.node.kubelet import judge_kubelet
from accelet.doctor.node.seen import NodeSeen


def judge_node(seen: NodeSeen) -> tuple[Verdict, ...]:
    return follow_causes((*judge_kubelet(seen), *judge_agent(seen)))


def follow_causes(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The same verdicts; an agent that cannot be ready for what another check finds wrong is a note."""
    wrong = {one.check for one in verdicts if one.level == "wrong"}
    kubelet = next((check for check in ("kubelet-folders", "kubelet-socket") if check in wrong), "")
    configuration = "configuration" if "configuration" in wrong else ""
    return tuple(
        replace(one, findings=tuple(_follow(each, kubelet, configuration) for each in one.findings))
        if one.check == "agent"
        else one
        for one in verdicts
    )


def _follow(finding: Finding, kubelet: str, configuration: str) -> Finding:
    cause = ""
    if finding.reason == NO_AGENT:
        cause = kubelet or configuration
    elif finding.quote.startswith(WAITS_FOR_KUBELET):
        cause = kubelet
    if finding.level != "wrong" or not cause:
        return finding
    return replace(finding, level="note", cure=f"See to {cause} first: this follows from it.")
