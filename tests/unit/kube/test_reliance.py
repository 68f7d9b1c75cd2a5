import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import (
    ForbiddenError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
    UnavailableError,
)
from accelet.kube.watching.reliance import AGAIN_S, SELDOM_S, Reliance, judge_binding
from tests.fakes.clocks import FakeClock, settle

NAME, OTHER = "accelet-assignments", "accelet-plans"
ACTIONS = st.lists(st.sampled_from(["Deny", "Warn", "Audit"]), unique=True)


def binding(policy: str | None = NAME, actions: list[str] | None = None) -> bytes:
    spec = {"policyName": policy, "validationActions": ["Deny"] if actions is None else actions}
    return json.dumps({"metadata": {"name": NAME}, "spec": spec}).encode()


@given(st.sampled_from([NAME, OTHER, "", None]), ACTIONS)
def test_binding_counts_that_refuses_for_the_policy_of_its_name(
    policy: str | None, actions: list[str]
) -> None:
    is_fine = policy == NAME and "Deny" in actions
    assert (judge_binding(binding(policy, actions), NAME) == "") == is_fine


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))
)
def test_whatever_else_is_written_there_is_malformed_or_a_problem(spec: object) -> None:
    with suppress(MalformedObjectError):
        assert judge_binding(json.dumps({"metadata": {"name": NAME}, "spec": spec}).encode(), NAME)


@dataclass
class Policies:
    """An API server with policies and bindings by name, or an error in place of every answer."""

    bindings: dict[str, bytes] = field(default_factory=dict)
    error: KubeError | None = None
    looks: int = 0

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        self.looks += 1
        if self.error is not None:
            raise self.error
        if name not in self.bindings:
            raise NotFoundError("GET", 404, "NotFound", "")
        return self.bindings[name]


@asynccontextmanager
async def relying(api: Policies, *names: str) -> AsyncIterator[tuple[Reliance, FakeClock, list[bool]]]:
    told: list[bool] = []
    clock = FakeClock()
    reliance = Reliance(names or (NAME,), told.append, clock=clock)
    work = asyncio.create_task(reliance.run(api))
    await settle()
    try:
        yield reliance, clock, told
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def test_nothing_is_believed_before_all_are_in_force() -> None:
    api = Policies({OTHER: binding(OTHER)})
    async with relying(api, OTHER, NAME) as (reliance, clock, told):
        assert f"there is no ValidatingAdmissionPolicy {NAME}" in reliance.doubt
        api.bindings[NAME] = binding(actions=["Audit"])
        await clock.advance(AGAIN_S)
        assert "does not refuse" in reliance.doubt
        waiting = asyncio.create_task(reliance.in_force())
        await settle()
        assert not waiting.done()
        api.bindings[NAME] = binding()
        await clock.advance(AGAIN_S)
        await waiting
        assert reliance.doubt == ""
        assert (told[0], told[-1], sum(told)) == (False, True, 1)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ForbiddenError("GET", 403, "Forbidden", ""), "the right to get the ValidatingAdmissionPolicy"),
        (UnavailableError("the API server is away"), "cannot be told: the API server is away"),
    ],
)
async def test_what_cannot_be_read_is_not_believed(error: KubeError, sentence: str) -> None:
    api = Policies({NAME: binding()}, error)
    async with relying(api) as (reliance, clock, _):
        assert sentence in await reliance.doubt_within(1.0)
        api.error = None
        await clock.advance(AGAIN_S)
        assert reliance.doubt == ""


async def test_what_was_in_force_stays_believed_and_people_are_told() -> None:
    api = Policies({NAME: binding()})
    async with relying(api) as (reliance, clock, told):
        del api.bindings[NAME]
        await clock.advance(SELDOM_S)
        assert (reliance.doubt, told) == ("", [True, False])


async def test_looks_are_few() -> None:
    api = Policies({NAME: binding()})
    async with relying(api) as (_, clock, _):
        await clock.advance(SELDOM_S * 3)
        assert api.looks == 8, "a policy and its binding, at first and three times more"
    api = Policies()
    async with relying(api) as (_, clock, _):
        await clock.advance(AGAIN_S * 10)
        assert 10 <= api.looks <= 20


async def test_whoever_asks_before_the_first_look_waits_no_longer_than_he_says() -> None:
    clock = FakeClock()
    reliance = Reliance((NAME,), lambda _: None, clock=clock)
    asking = asyncio.create_task(reliance.doubt_within(2.0))
    await clock.advance(2.0)
    assert await asking == "nobody has looked yet"
