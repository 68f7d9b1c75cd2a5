"""Selectors and first fit are judged by the engines of kube-scheduler 1.36 itself."""

import json
import random
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any

from accelet.claims.cel.selector import NoAnswer, read_selector
from accelet.claims.requests import parse_claim, parse_device_class
from accelet.claims.slices import parse_slice
from accelet.kube.quantity import parse_quantity
from accelet.scheduler.claims.firstfit import Served, Supply, Why, first_fit
from accelet.scheduler.claims.holdings import count_holdings
from accelet.scheduler.claims.pools import SliceIndex, TriedNode
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.unit.claims.devices import seen
from tests.unit.claims.draws import draw_pod
from tests.unit.claims.expressions import Question, draw

Json = dict[str, Any]
EXPRESSIONS, PODS = 15_000, 4_000


def _ask(binaries: Binaries, questions: Sequence[str]) -> list[str]:
    done = subprocess.run(
        [binaries.path("dra")],
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.splitlines()


def _answer(question: Question) -> str:
    device = seen(question.driver, question.attributes, question.capacity, is_shared=question.allows_multiple)
    found = read_selector(question.expression).answer(device)
    if isinstance(found, NoAnswer):
        return "unknown" if found.is_ours else "error"
    return "true" if found else "false"


def test_selectors_say_what_the_engine_says(dra_binaries: Binaries, say: Progress) -> None:
    source = random.Random(29)
    questions = [draw(source) for _ in range(EXPRESSIONS)]
    theirs = [
        one.partition(":")[0] for one in _ask(dra_binaries, [question.line() for question in questions])
    ]
    taken = [
        (question, _answer(question), their)
        for question, their in zip(questions, theirs, strict=True)
        if their != "refused"
    ]
    wrong = [one for one in taken if one[1] not in {one[2], "unknown"}]
    counts = Counter(ours for _, ours, _ in taken)
    say(f"\nselectors: {dict(counts)} of {len(taken)}, {len(wrong)} unlike the engine's")
    assert not wrong, wrong[:3]
    assert counts["unknown"] < len(taken) / 1000
    assert min(counts["true"], counts["false"], counts["error"]) > len(taken) / 20


Outcome = str | list[list[tuple[str, ...]]]


def _first_fit(asked: Json) -> Outcome:
    place = TriedNode("n1", asked["node"]["metadata"]["labels"])
    supply = Supply(
        place,
        SliceIndex(map(parse_slice, asked["slices"])).pools(place),
        count_holdings(map(parse_claim, asked["held"])),
        {one.name: one for one in map(parse_device_class, asked["classes"])},
    )
    found = first_fit(list(map(parse_claim, asked["claims"])), supply)
    return _devices(found) if isinstance(found, Served) else str(found.why.value)


def _devices(found: Served) -> list[list[tuple[str, ...]]]:
    return [
        [
            (one.request, str(one.device), str(one.is_admin), *sorted(map(str, (one.consumed or {}).items())))
            for one in devices
        ]
        for devices in found.given
    ]


def _as_said(line: str) -> Outcome:
    if line == "gave up":
        return line
    if line == "null":
        return str(Why.NO_ROOM.value)
    if line.startswith("error"):
        return str((Why.NODE_FAILS if "invalid resource pools" in line else Why.POD_FAILS).value)
    return [
        [
            (
                one["request"],
                f"{one['driver']}/{one['pool']}/{one['device']}",
                str(bool(one.get("adminAccess"))),
                *sorted(
                    str((name, parse_quantity(text)))
                    for name, text in one.get("consumedCapacity", {}).items()
                ),
            )
            for one in devices or ()
        ]
        for devices in json.loads(line)
    ]


def test_first_fit_gives_the_devices_that_the_allocator_gives(dra_binaries: Binaries, say: Progress) -> None:
    source = random.Random(29)
    pods = [draw_pod(source) for _ in range(PODS)]
    theirs = list(map(_as_said, _ask(dra_binaries, [json.dumps(pod) for pod in pods])))
    ours = list(map(_first_fit, pods))
    wrong = [
        (pod, our, their)
        for pod, our, their in zip(pods, ours, theirs, strict=True)
        if our not in (their, Why.UNKNOWN.value) and their != "gave up"
    ]
    counts = Counter(one if isinstance(one, str) else "fit" for one in ours)
    say(f"\nfirst fit: {dict(counts)}, {len(wrong)} unlike the allocator's")
    assert not wrong, wrong[:1]
    assert counts[Why.UNKNOWN.value] + theirs.count("gave up") < PODS / 40
    assert counts["fit"] > PODS / 10
