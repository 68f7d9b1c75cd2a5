"""An agent on the node that follows assignments, and what it counts of its matches."""

import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.agent import AGENT, wait_for_allocatable
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.free_ports import free_port
from tests.integration.identity.storm import CARDS, TILES

GPU = "gpu.intel.com/i915"
SHARES = 300
PROJECT = Path(__file__).parents[2]

_DURATION = "accelet_match_duration_seconds"
_QUESTIONS = "accelet_match_questions_total"
_OUTCOMES = "accelet_matches_total"


@dataclass(frozen=True, slots=True)
class Matches:
    """What an agent counted of its matches.

    `searches` is how many there were, `histogram` how many took no longer than so many seconds. `questions`
    are counted by kind, `outcomes` of Allocate calls by proof or doubt.
    """

    searches: int
    histogram: Mapping[float, int]
    questions: Mapping[str, int]
    outcomes: Mapping[str, int]

    def since(self, before: "Matches") -> "Matches":
        return Matches(
            self.searches - before.searches,
            {bound: count - before.histogram.get(bound, 0) for bound, count in self.histogram.items()},
            _difference(self.questions, before.questions),
            _difference(self.outcomes, before.outcomes),
        )

    @property
    def gets_a_match(self) -> float:
        """Questions to podresources by each search on average."""
        return self.questions.get("get", 0) / max(1, self.searches)

    @property
    def doubts(self) -> Mapping[str, int]:
        return {name: count for name, count in self.outcomes.items() if name.startswith("none-")}

    def quantile_ms(self, part: float) -> float:
        """The time in ms within which this part of the searches ended, straight between two bounds."""
        wanted, low_s, low = part * self.searches, 0.0, 0
        for bound_s, count in sorted(self.histogram.items()):
            if count >= wanted:
                return 1000 * (low_s + (bound_s - low_s) * (wanted - low) / max(1, count - low))
            low_s, low = bound_s, count
        return float("inf")


@dataclass
class AssigningAgent:
    """Its process may be killed and started again; it then counts from nothing."""

    node: Node
    process: NodeProcess
    port: int

    def matches(self) -> Matches:
        histogram: dict[float, int] = {}
        counted: dict[str, dict[str, int]] = {_QUESTIONS: {}, _OUTCOMES: {}}
        searches = 0
        for family in text_string_to_metric_families(self._read()):
            for sample in family.samples:
                match sample.name:
                    case name if name == f"{_DURATION}_count":
                        searches = int(sample.value)
                    case name if name == f"{_DURATION}_bucket" and sample.labels["le"] != "+Inf":
                        histogram[float(sample.labels["le"])] = int(sample.value)
                    case name if name in counted:
                        label = sample.labels.get("question") or sample.labels["proof"]
                        counted[name][label] = int(sample.value)
        return Matches(searches, histogram, counted[_QUESTIONS], counted[_OUTCOMES])

    def wait_until_registered(self) -> None:
        """Returns once the kubelet has its list; what the API server says of the node comes later."""
        wait_until("the agent is registered", self._is_registered, timeout_s=60, depends_on=[self.process])

    def _is_registered(self) -> bool:
        try:
            lines = self._read().splitlines()
        except OSError:
            return False
        return any(line.startswith("accelet_registered{") and line.endswith(" 1.0") for line in lines)

    def _read(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())


def make_agent(cluster: ControlPlane, node: Node, config: Path) -> AssigningAgent:
    """Not started yet."""
    port = free_port()
    words: list[str | Path] = [AGENT, "agent", "--config", config, "--kubeconfig", cluster.kubeconfig]
    words += ["--node-name", node.name, "--http", f"127.0.0.1:{port}"]
    return AssigningAgent(node, node.process(f"agent-{config.stem}", words), port)


@contextmanager
def assigning_agent(
    cluster: ControlPlane, node: Node, folder: Path, *, is_assigned: bool = True
) -> Iterator[AssigningAgent]:
    """Serves the cards as `GPU` until the end of the block, with assignments or without."""
    config = write_cards_config(folder / "storm.yaml", is_assigned=is_assigned)
    agent = make_agent(cluster, node, config)
    agent.process.start()
    try:
        wait_for_allocatable(node, GPU, CARDS * SHARES, timeout_s=90)
        yield agent
    finally:
        agent.process.terminate()
        wait_for_allocatable(node, GPU, 0)  # so that the next one waits for its own


def write_cards_config(
    path: Path, *, resource: str = GPU, is_assigned: bool = True, options: Sequence[str] = ()
) -> Path:
    """8 cards of 2 tiles, 300 shares each."""
    lines = [f"version: v1\nresources:\n- name: {resource}\n  backend: simulated\n  shares: {SHARES}"]
    lines += ["  assignment: annotations"] if is_assigned else []
    lines += [f"  {option}" for option in options] + ["  cards:"]
    for card in range(CARDS):
        nodes = f"nodes: [{{path: /dev/null, mount_path: /dev/dri/card{card}}}]"
        lines.append(f'  - {{pci: "0000:{card + 3:02x}:00.0", card: card{card}, tiles: {TILES}, {nodes}}}')
    path.write_text("\n".join(lines) + "\n")
    return path


def project_environment() -> Mapping[str, str]:
    """What a Python process of the node needs to find this project."""
    return {**os.environ, "PYTHONPATH": str(PROJECT)}


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> Mapping[str, int]:
    found = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in found.items() if count}
