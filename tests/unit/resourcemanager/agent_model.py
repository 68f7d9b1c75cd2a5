"""The agent's side of the simulated node: it gathers, matches and keeps its ledger as the real one does.

It knows nothing but what the real one could: not what it has not asked for, nor what it has forgotten.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, index_pods
from resourcemanager.holdings.ledger import ALLOCATION_ANNOTATION, InFlight, Ledger
from resourcemanager.holdings.reconcile import AnswerOutcome, View, pods_to_ask, reconcile
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.answered import note_answer
from resourcemanager.matching.caller import next_step
from resourcemanager.matching.inquiry import (
    AskAllShown,
    AskCheckpoint,
    AskShown,
    CallFacts,
    Doubt,
    FollowEnd,
    FollowWatch,
    Match,
    NoProof,
    ReadPod,
    ReadPods,
)
from resourcemanager.matching.screening import Screening
from tests.unit.resourcemanager.kubelet_model import Call, Node, R

MOST_QUESTIONS = 200
FOLLOW_MS = 2500
SCREEN_MS = 2000


@dataclass
class Agent:
    """Matches every call; `counts` has what came of them, `questions` what it took.

    `refuses`: how often a call that was matched is refused all the same, as for a wrong assignment.
    """

    node: Node
    gives_unproven: bool = False
    refuses: float = 0.0
    ledger: Ledger = field(default_factory=lambda: Ledger(R))
    admissions: Admissions = field(default_factory=Admissions)
    screening: Screening = field(default_factory=Screening)
    is_screened: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[Call, Match]] = field(default_factory=list)
    phantoms: list[object] = field(default_factory=list)
    doubts: list[NoProof] = field(default_factory=list)
    corrections: int = 0
    seen_kubelet: int = 0
    seen_agent: int = 0
    heard_before: frozenset[PodUid] = frozenset()

    def __post_init__(self) -> None:
        self.node.registering = self.register

    def register(self) -> None:
        """What it does before it registers, and once the kubelet knows the resource."""
        self.remember()
        self.is_screened = False
        self.screening = Screening(self.node.knows_resource)
        for pod in list(self.screening.list_unasked(self.index(self.node.watched()), self.screened_by())):
            self.screening = self.screening.with_before(pod, self.node.get(pod.key), self.screened_by())
        self.screen(is_during_call=False)

    def screen(self, *, is_during_call: bool) -> None:
        if self.is_screened or (pods := self.node.list_anew()) is None or not self.is_complete(pods):
            return
        self.screening = self.screening.again(is_during_call=is_during_call, as_of=self.node.version())
        for pod in list(self.screening.list_unasked(self.index(pods), self.screened_by())):
            self.screening = self.screening.with_after(pod, self.node.get(pod.key), self.screened_by())
        self.screening = self.screening.with_lost(self.node.believe(self.node.deleted()), self.screened_by())
        self.is_screened = True

    def is_complete(self, pods: tuple[Pod, ...]) -> bool:
        """Waits until it is known which pods were deleted up to this list; whether it is."""
        behind = [pod for pod in pods if pod.uid in self.node.unwatched()]
        if self.screening.is_known or not behind:
            return True
        return self.node.follow(max(behind, key=lambda pod: int(pod.resource_version)), SCREEN_MS)

    def screened_by(self) -> Ledger:
        return self.ledger

    def index(self, pods: tuple[Pod, ...]) -> Mapping[PodUid, Pod]:
        lost = {pod.uid for pod in self.node.deleted() if not pod.is_mirror}
        return index_pods(pods, lambda uid: uid in lost or self.node.agent_watch.former.has_had(uid))

    def remember(self) -> None:
        """A new agent knows nothing; a new kubelet begins anew, and its checkpoint has what it took over."""
        node = self.node
        if node.agent_generation != self.seen_agent:
            self.seen_agent, self.seen_kubelet = node.agent_generation, node.kubelet_generation
            node.watch_anew()
            self.ledger, self.admissions = Ledger(R), Admissions()
            self.keep_ledger(is_after_answers=False)
        elif node.kubelet_generation != self.seen_kubelet:
            self.seen_kubelet = node.kubelet_generation
            self.forget_kubelet()
            self.keep_ledger(is_after_answers=True)

    def forget_kubelet(self) -> None:
        known = frozenset(self.index(self.node.watched()))
        self.admissions = Admissions(listed=known)
        self.ledger = self.ledger.of_new_kubelet(known)

    def answer(self, call: Call) -> dict[str, str] | None:
        self.heard_before = self.node.heard_of() if call.heard is None else call.heard
        self.keep_ledger(is_after_answers=False)
        if self.node.random.random() < 0.2:
            self.keep_ledger_with_podresources()
        generation = self.node.agent_generation
        step = self.match(call)
        if generation != self.node.agent_generation:
            return None  # nobody is there any more to give the answer
        self.count(call, step)
        token = f"t{self.counts.total()}"
        if isinstance(step, Match) and step.proof.is_exact:
            is_refused = self.node.random.random() < self.refuses
            self.note(step, is_refused=is_refused)
            if is_refused:
                return None
            self.ledger = self.ledger.with_answer(InFlight(token, call.device_ids, step.owner, step.pod.key))
        elif self.gives_unproven:
            self.ledger = self.ledger.with_answer(InFlight(token, call.device_ids))
        else:
            self.note(step, is_refused=True)
            return None
        return {ALLOCATION_ANNOTATION: token}

    def note(self, step: Match | NoProof, *, is_refused: bool) -> None:
        known = self.index((*self.node.watched(), *self.node.deleted())).keys()
        self.admissions = note_answer(self.admissions, step, is_refused=is_refused, known=known)

    def count(self, call: Call, step: Match | NoProof) -> None:
        if isinstance(step, NoProof):
            self.doubts.append(step)
            self.counts["unproven" if call.is_admission else "unproven beside a registration"] += 1
        elif not step.proof.is_exact:
            self.counts["inexact" if call.is_admission else "unproven beside a registration"] += 1
        elif step.owner == call.truth:
            self.counts["right"] += 1
        else:
            self.wrong.append((call, step))
            self.counts["wrong"] += 1

    def match(self, call: Call) -> Match | NoProof:
        node = self.node
        self.screen(is_during_call=True)
        if not self.is_screened:
            return NoProof(Doubt.UNANSWERED, "It is not known who was skipped.")
        self.screening = self.screening.with_late(node.believe(node.deleted()), self.screened_by())
        admissions = self.admissions = replace(self.admissions, skipped=self.screening.skipped)
        evidence = CallFacts(
            size=len(call.device_ids),
            ledger=self.ledger,
            pods=admissions.put_in_order(self.index(node.watched())),
            podresources=node.mode,
            is_watch_current=node.with_.lag_ms == 0,
            admissions=admissions,
            deleted=index_pods(node.believe(node.deleted())),
            heard=node.heard_of(),
            heard_before=self.heard_before,
            deletions=node.deletions(),
            deleted_before=node.deleted_before(),
            passed=admissions.list_passed(self.index(node.watched())),
            knows_former=node.knows_former(),
            unwatched=node.unwatched(),
            vanished=node.vanished(),
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
                    self.keep_ledger(is_after_answers=True)
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
                    pods = node.list_anew()
                    evidence = evidence.without_api_server() if pods is None else evidence.with_pods(pods)
                case FollowWatch() | FollowEnd():
                    evidence = self.follow(step, evidence)
        raise AssertionError("it never ends")

    def follow(self, question: FollowWatch | FollowEnd, evidence: CallFacts) -> CallFacts:
        node = self.node
        if isinstance(question, FollowWatch):
            is_told = node.follow(question.pod, FOLLOW_MS)
        else:
            is_told = node.follow_end(question.uid, FOLLOW_MS)
        told = index_pods(node.believe(node.deleted())), self.index(node.watched())
        if not is_told:
            followed = evidence.without_watch()
        elif isinstance(question, FollowWatch):
            followed = evidence.with_followed(question.pod, *told)
        else:
            followed = evidence.with_end(question.uid, *told)
        return replace(
            followed,
            heard=node.heard_of(),
            deletions=node.deletions(),
            deleted_before=node.deleted_before(),
            knows_former=node.knows_former(),
            vanished=node.vanished(),
        )

    def keep_ledger(self, *, is_after_answers: bool) -> None:
        node = self.node
        is_current = node.checkpoint_generation == node.kubelet_generation
        self.take(
            View(node.checkpoint, {}, node.watched(), is_after_answers, is_current, former=self.former())
        )

    def former(self) -> frozenset[PodUid]:
        return frozenset(index_pods(self.node.believe(self.node.deleted())))

    def keep_ledger_with_podresources(self) -> None:
        """As it does at each scan; now and then its checkpoint cannot be read."""
        node = self.node
        pods = node.watched()
        shown = {name: node.get(name) for name in pods_to_ask(self.ledger, pods)}
        checkpoint = node.checkpoint if node.random.random() < 0.7 else None
        is_current = node.checkpoint_generation == node.kubelet_generation
        self.take(View(checkpoint, shown, pods, is_of_this_kubelet=is_current, former=self.former()))

    def take(self, view: View) -> None:
        result = reconcile(self.ledger, view)
        self.ledger = result.ledger
        self.corrections += sum(one.outcome is AnswerOutcome.CORRECTED for one in result.settled)
        for key, holding in result.ledger.holdings.items():
            is_had = any(holding.device_ids <= ids for ids in self.node.had.get(key, ()))
            if not is_had and key.pod_uid in self.node.api:
                self.phantoms.append(holding)
