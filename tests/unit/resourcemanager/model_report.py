"""What matching makes of simulated nodes: `python -m tests.unit.resourcemanager.model_report 500`."""

import sys
from collections import Counter

from resourcemanager.matching.inquiry import Podresources
from tests.unit.resourcemanager.agent_model import Agent
from tests.unit.resourcemanager.kubelet_model import Disturbances, Node

KINDS = {
    "quiet": Disturbances(),
    "lagging watch, restarts": Disturbances(lag_ms=500, kubelet_restarts=True, agent_restarts=True),
    "static pods": Disturbances(lag_ms=20, static_pods=True),
    "API server away at times": Disturbances(lag_ms=500, api_server_fails=True),
    "a pod without its devices": Disturbances(forgotten_pods=True),
}


def main(nodes: int) -> None:
    sys.stdout.write(
        "| podresources | node | calls | matched | refused | wrong |\n|---|---|---|---|---|---|\n"
    )
    for mode in Podresources:
        for kind, disturbances in KINDS.items():
            total: Counter[str] = Counter()
            for seed in range(nodes):
                agent = Agent(Node(seed, mode, disturbances))
                agent.node.run(agent.answer)
                total += agent.counts
            refused = total.total() - total["right"] - total["wrong"]
            figures = (total.total(), total["right"], refused, total["wrong"])
            sys.stdout.write(f"| {mode.value} | {kind} | {' | '.join(map(str, figures))} |\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
