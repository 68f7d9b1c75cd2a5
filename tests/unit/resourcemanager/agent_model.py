"""The agent's side of the simulated node: it gathers, matches and keeps its books as the real one does."""

from collections import Counter
from dataclasses import dataclass, field

from accelet.kube.poduid import index_pods
from resourcemanager.holdings.ledger import ALLOCATION_ANNOTATION, InFlight, Ledger
from resourcemanager.holdings.reconcile import Outcome, View, reconcile
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.caller import next_step
from resourcemanager.matching.inquiry import (
    AskAllShown,
    AskCheckpoint,
    AskShown,
    Evidence,
    Match,
    NoProof,
    ReadPod,
    ReadPods,
)
from tests.unit.resourcemanager.kubelet_model import Call, Node, R

MOST_QUESTIONS = 200


@dataclass
class Agent:
    """Matches every call; `counts` has what came of them, `questions` what it took."""

    node: Node
    gives_unproven: bool = False
    ledger: Ledger = field(default_factory=lambda: Ledger(R))
    counts: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[Call, Match]] = field(default_factory=list)
    doubts: list[NoProof] = field(default_factory=list)
    corrections: int = 0
    seen_kubelet: int = 0
    seen_agent: int = -1

    def answer(self, call: Call) -> dict[str, str] | None:
        self.keep_books()
        step = self.match(call)
        token = f"t{self.counts.total()}"
        if isinstance(step, NoProof):
            self.doubts.append(step)
            self.counts["unproven"] += 1
        elif not step.proof.is_exact:
            self.counts["inexact"] += 1
        elif step.owner != call.truth:
            self.wrong.append((call, step))
            self.counts["wrong"] += 1
        else:
            self.counts["right"] += 1
        if isinstance(step, Match) and step.proof.is_exact:
            self.ledger = self.ledger.with_answer(InFlight(token, call.device_ids, step.owner, step.pod.key))
        elif self.gives_unproven:
            self.ledger = self.ledger.with_answer(InFlight(token, call.device_ids))
        else:
            return None
        return {ALLOCATION_ANNOTATION: token}

    def match(self, call: Call) -> Match | NoProof:
        node = self.node
        evidence = Evidence(
            size=len(call.device_ids),
            ledger=self.ledger,
            pods=index_pods(node.watched()),
            podresources=node.mode,
            is_watch_current=node.with_.lag_ms == 0,
            admissions=Admissions(skipped=node.older_than_resource),
            deleted=index_pods(node.deleted()),
        )
        for _ in range(MOST_QUESTIONS):
            step = next_step(evidence)
            self.questions[type(step).__name__] += 1
            match step:
                case Match() | NoProof():
                    return step
                case AskShown(name):
                    evidence = evidence.with_shown(name, node.get(name))
                case AskAllShown():
                    evidence = evidence.with_all_shown(node.list_all())
                case AskCheckpoint():
                    view = View(checkpoint=node.checkpoint, pods=node.watched(), is_after_answers=True)
                    self.ledger = self.reconcile(view)
                    evidence = evidence.with_ledger(self.ledger)
                case ReadPod(name):
                    pods = node.read()
                    found = [pod for pod in pods or () if pod.key == name]
                    evidence = (
                        evidence.without_api_server()
                        if pods is None
                        else evidence.with_pod(name, found[0] if found else None)
                    )
                case ReadPods(after_s):
                    node.pass_time(int(after_s * 1000))
                    pods = node.read()
                    evidence = evidence.without_api_server() if pods is None else evidence.with_pods(pods)
        raise AssertionError("it never ends")

    def keep_books(self) -> None:
        node = self.node
        is_new_kubelet = node.kubelet_generation != self.seen_kubelet
        self.seen_kubelet = node.kubelet_generation
        if node.agent_generation != self.seen_agent:
            self.seen_agent = node.agent_generation
            self.ledger = Ledger(R)
        elif not is_new_kubelet and node.random.random() < 0.5:
            return  # news of the checkpoint is not yet here
        view = View(checkpoint=node.checkpoint, pods=node.watched(), is_after_answers=is_new_kubelet)
        self.ledger = self.reconcile(view)

    def reconcile(self, view: View) -> Ledger:
        result = reconcile(self.ledger, view)
        self.corrections += sum(one.outcome is Outcome.CORRECTED for one in result.settled)
        return result.ledger
