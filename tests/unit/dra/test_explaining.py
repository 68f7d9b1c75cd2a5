"""What `accelet explain` says of claims, and of what claims cannot say."""

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.edits import ContainerEdits
from accelet.dra.preparing.cdi import CdiDevice, render_cdi
from accelet.dra.preparing.claim import AllocatedClaim, Consumer, Result
from accelet.dra.preparing.consumers import WHOLE, ClaimUse, ConsumerPod
from accelet.dra.preparing.entry import Entry, PreparedDevice
from accelet.dra.preparing.explaining import ClaimExplanation, DriverSources, explain_claims
from accelet.dra.preparing.instead import explain_inexpressible

DRIVER = "gpu.accelet.dev"
CARDS = ("gpu.intel.com/i915", "gpu.intel.com/xe")
RESULTS = (Result("left", "node-1", "tile-0"), Result("right", "node-1", "tile-1"))
CLAIM = AllocatedClaim(
    "ml", "claim", "uid", RESULTS, (), (Consumer("pod", "pod-uid"),), "pod-uid", False, "now"
)


def entry(digest: str = "now") -> Entry:
    devices = [CdiDevice(f"d{place}", ContainerEdits(environment={"MASK": str(place)})) for place in (0, 1)]
    whole = CdiDevice("whole", ContainerEdits(environment={"MASK": "0,1"}))
    cdi = render_cdi(DRIVER, [*devices, whole]).decode()
    kind = json.loads(cdi)["kind"]
    answers = [
        PreparedDevice((one.request,), one.pool, one.device, (f"{kind}=d{place}",))
        for place, one in enumerate(RESULTS)
    ]
    last = PreparedDevice(("-whole-claim",), "node-1", "tile-0", (f"{kind}=d0", f"{kind}=whole"))
    return Entry("uid", digest, "ml", "claim", "completed", (), (*answers, last), cdi, has_environment=True)


def told(
    *requests: str | None,
    entries: tuple[Entry, ...] = (entry(),),
    claim: AllocatedClaim | None = CLAIM,
    file: str | None = entry().cdi,
) -> ClaimExplanation:
    pod = ConsumerPod("pod", "pod-uid", (ClaimUse("main", "claim", frozenset(requests)),))
    files = {one.key: file for one in entries}
    (line,) = explain_claims(pod, "ml", [DriverSources(DRIVER, entries, files, {"claim": claim})])
    return line


def test_a_container_has_what_its_requests_were_given_or_all_of_the_claim() -> None:
    assert told("right").devices == ("tile-1",)
    assert told("right").environment == {"MASK": "1"}
    whole = told(WHOLE)
    assert (whole.devices, whole.environment) == (("tile-0", "tile-1"), {"MASK": "0,1"})
    assert whole.agrees
    assert whole.reason == "allocation, record and CDI file agree"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (told(WHOLE, claim=None), "the claim cannot be read at the API server"),
        (told(WHOLE, claim=replace(CLAIM, consumers=())), "the claim is not reserved for this pod"),
        (told(WHOLE, entries=()), "it is allocated, and not prepared on this node"),
        (told(WHOLE, entries=(entry("before"),)), "what is prepared is an earlier allocation of the claim"),
        (
            told(WHOLE, entries=(replace(entry(), phase="started"),)),
            "its preparing was begun, and not completed",
        ),
        (told(WHOLE, file=None), "its CDI file is missing"),
        (told(WHOLE, file="{}"), "its CDI file was changed"),
    ],
)
def test_who_differs_is_told(line: ClaimExplanation, reason: str) -> None:
    assert (line.agrees, line.reason) == (False, reason)


def test_claims_of_others_are_not_told() -> None:
    pod = ConsumerPod("pod", "pod-uid", (ClaimUse("main", "other", frozenset({WHOLE})),))
    assert explain_claims(pod, "ml", [DriverSources(DRIVER, (entry(),), {}, {"other": None})]) == ()
    foreign = replace(CLAIM, results=())
    use = ConsumerPod("pod", "pod-uid", (ClaimUse("main", "claim", frozenset({WHOLE})),))
    assert explain_claims(use, "ml", [DriverSources(DRIVER, (), {}, {"claim": foreign})]) == ()


_AMOUNTS = {
    "gpu.intel.com/i915": st.integers(0, 3),
    "gpu.intel.com/tiles": st.integers(0, 3),
    "gpu.intel.com/millicores": st.integers(0, 3000),
    "gpu.intel.com/memory.max": st.integers(0, 2**40),
}


@given(st.fixed_dictionaries({}, optional=_AMOUNTS), st.booleans())
def test_what_an_extended_resource_cannot_say_is_told_with_a_claim_that_gives_no_less(
    limits: dict[str, int], is_gas: bool
) -> None:
    cards, tiles, millicores, memory = (limits.get(name, 0) for name in _AMOUNTS)
    said = explain_inexpressible("main", limits, CARDS, {"gas-allow": "card0"} if is_gas else {})
    is_plain = not (millicores or memory or is_gas or (tiles and cards))
    assert (said is None) == is_plain
    if said is None or "write a claim instead" not in said:
        return
    document = yaml.safe_load(said.partition("\n")[2])
    (request,) = document["spec"]["spec"]["devices"]["requests"]
    exactly = request["exactly"]
    count = exactly.get("count", 1)
    if tiles:
        assert (exactly["deviceClassName"], count) == ("tile.gpu.accelet.dev", tiles)
        return
    amounts = exactly.get("capacity", {"requests": {}})["requests"]
    assert (exactly["deviceClassName"], count) == ("gpu.accelet.dev", max(cards, 1))
    each = int(amounts.get("millicores", 1000))
    assert each % 10 == 0
    assert each * count >= min(millicores, 1000 * count)
    assert int(amounts.get("memory", "0Mi").removesuffix("Mi")) * 2**20 * count >= memory
