"""What was seen in a scenario, written so that two kubelets that behave alike give the same text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SIZES = re.compile(r"(OutOfcpu: .*requested: ).*")
ENDPOINT = re.compile(r"(endpoint &\{.*) 0x[0-9a-f]+ \{\d+ \d+ 0x[0-9a-f]+\} <nil>\}")
"""A kubelet's own structure in an error: addresses and a time."""
FOLDER = re.compile(r"/[^ ]*/device-plugins/")
IDS = "<ids>"
"""Where a set of ids stands in a line's text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing seen. Each `<ids>` of `text` stands for one of `sets`, which are device ids.

    Lines of one lane keep their order; lanes of the same step are independent of each other.
    """

    step: int
    lane: str
    text: str
    sets: tuple[frozenset[str], ...] = ()


@dataclass(slots=True)
class Transcript:
    """Lines as they come, under the step that is being played."""

    step: int = 0
    headings: dict[int, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def begin(self, heading: str) -> None:
        self.step += 1
        self.headings[self.step] = heading

    def add(self, lane: str, text: str, *sets: Iterable[str]) -> None:
        self.lines.append(Line(self.step, lane, text, tuple(frozenset(each) for each in sets)))

    def render(self) -> list[str]:
        """The text: free of times, of uids, and of which of several equal devices was taken."""
        renaming = Renaming()
        text = []
        for step, heading in self.headings.items():
            text.append(f"{step}. {heading}")
            lines = [line for line in self.lines if line.step == step]
            # Python's sort is stable: within a lane nothing moves.
            for line in sorted(lines, key=lambda line: line.lane):
                words = _neutral(line.text)
                for ids in line.sets:
                    words = words.replace(IDS, f"[{' '.join(renaming.names(ids))}]", 1)
                text.append(f"   {line.lane}: {words}")
        return text


def _neutral(text: str) -> str:
    for pattern, neutral in (
        (UID, "UID"),
        (SIZES, r"\1..."),
        (ENDPOINT, r"\1 ...}"),
        (FOLDER, "device-plugins/"),
    ):
        text = pattern.sub(neutral, text)
    return text


class Renaming:
    """Gives ids names that only depend on the sets they were in, one set after the other.

    Ids that were in exactly the same sets so far cannot be told apart, and share a pool of names. A set
    that takes some of them takes the first names of the pool. So two runs read the same if and only if
    one is the other with its ids renamed.
    """

    def __init__(self) -> None:
        self._pools: list[tuple[frozenset[str], list[str]]] = []

    def names(self, ids: frozenset[str]) -> list[str]:
        new = ids.difference(*(members for members, _ in self._pools))
        pools = [*self._pools, (new, sorted(new))] if new else self._pools
        self._pools = []
        taken = []
        for members, names in pools:
            inside = members & ids
            own, rest = names[: len(inside)], names[len(inside) :]
            taken += own
            if inside:
                self._pools.append((inside, own))
            if rest:
                self._pools.append((members - inside, rest))
        return sorted(taken)
