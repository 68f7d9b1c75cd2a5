"""Counters over many looks: whatever a card's own do, ours only grow, by no more than there was."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.sensors.account import DOUBTS, MOST_WATTS, Account
from accelet.accelerators.sensors.cardlook import CardLook
from accelet.accelerators.sensors.sample import (
    AWAKE,
    ENERGY,
    IS_ACTIVE,
    PCIE_ERRORS,
    TEMPERATURE,
    Metric,
    Sample,
)

CARD, GT = ("card",), ("0", "0")


def look(
    at_s: float, *, joules: float | None = None, idle_s: float | None = None, suspended_s: float = 0.0
) -> CardLook:
    samples = [Sample(ENERGY, joules, CARD)] if joules is not None else []
    samples += [Sample(AWAKE, idle_s, GT)] if idle_s is not None else []
    return CardLook(at_s, is_active=True, suspended_s=suspended_s, samples=tuple(samples))


def follow(looks: Sequence[CardLook]) -> list[Account]:
    accounts = [Account()]
    for reading in looks:
        accounts.append(accounts[-1].followed_by(reading))
    return accounts[1:]


def told(account: Account, metric: Metric) -> float | None:
    found = [sample.value for sample in account.samples if sample.metric is metric]
    return found[0] if found else None


def test_energy_counts_from_the_first_look() -> None:
    accounts = follow([look(0, joules=700.0), look(10, joules=1700.0), look(20, joules=1900.0)])
    assert [told(account, ENERGY) for account in accounts] == [0.0, 1000.0, 1200.0]


def test_a_single_zero_is_no_sample() -> None:
    accounts = follow([look(0, joules=700.0), look(10, joules=0.0), look(20, joules=900.0)])
    assert [told(account, ENERGY) for account in accounts] == [0.0, 0.0, 200.0]


def test_a_counter_that_was_set_anew_is_believed_after_some_looks() -> None:
    looks = [look(0, joules=9e6), *(look(10 * n, joules=100.0 * n) for n in range(1, DOUBTS + 3))]
    totals = [told(account, ENERGY) for account in follow(looks)]
    assert totals == [0.0, *[0.0] * DOUBTS, 100.0, 200.0]


def test_a_card_that_sleeps_keeps_its_counters_and_tells_nothing_else() -> None:
    awake = CardLook(
        0, is_active=True, samples=(Sample(ENERGY, 5.0, CARD), Sample(TEMPERATURE, 60.0, ("pkg",)))
    )
    asleep = Account().followed_by(awake).followed_by(CardLook(10, is_active=False))
    assert asleep.samples == (Sample(IS_ACTIVE, 0.0), Sample(ENERGY, 0.0, CARD))


def test_time_asleep_is_no_time_awake() -> None:
    accounts = follow([look(0, idle_s=50.0), look(100, idle_s=80.0, suspended_s=60.0)])
    assert told(accounts[-1], AWAKE) == pytest.approx(10.0)


def test_errors_at_both_ends_are_added_up() -> None:
    reading = CardLook(0, is_active=True, samples=(Sample(PCIE_ERRORS, 2.0, ("fatal",)),) * 3)
    assert told(Account().followed_by(reading), PCIE_ERRORS) == 6.0


@given(st.lists(st.tuples(st.floats(0.1, 600), st.floats(0, 1), st.floats(0, 1)), max_size=20))
def test_honest_counters_are_followed_exactly(steps: list[tuple[float, float, float]]) -> None:
    at_s, joules, idle_s, awake_s = 0.0, 1.0, 1.0, 0.0
    looks = [look(at_s, joules=joules, idle_s=idle_s)]
    for passed_s, power, awake in steps:
        at_s, joules = at_s + passed_s, joules + passed_s * power * MOST_WATTS
        idle_s, awake_s = idle_s + passed_s * (1 - awake), awake_s + passed_s * awake
        looks.append(look(at_s, joules=joules, idle_s=idle_s))
    last = follow(looks)[-1]
    assert told(last, ENERGY) == pytest.approx(joules - 1.0, abs=1e-6)
    assert told(last, AWAKE) == pytest.approx(awake_s, abs=1e-6)


absurd = st.one_of(st.floats(0, 1e13), st.just(0.0), st.none())


@given(st.lists(st.tuples(st.floats(0.1, 600), absurd, absurd, st.floats(0, 1e6)), max_size=30))
def test_whatever_a_card_says_no_counter_falls_or_outruns_time(
    steps: list[tuple[float, float | None, float | None, float]],
) -> None:
    at_s, looks = 0.0, []
    for passed_s, joules, idle_s, suspended_s in steps:
        at_s += passed_s
        looks.append(look(at_s, joules=joules, idle_s=idle_s, suspended_s=suspended_s))
    energy, awake = 0.0, 0.0
    for account in follow(looks):
        assert (told(account, ENERGY) or 0.0) >= energy
        assert (told(account, AWAKE) or 0.0) >= awake
        energy, awake = told(account, ENERGY) or energy, told(account, AWAKE) or awake
    assert energy <= MOST_WATTS * (at_s + len(steps))
    assert awake <= at_s + 1e-6
