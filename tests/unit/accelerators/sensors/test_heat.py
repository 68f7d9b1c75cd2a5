"""Which cards are too hot."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.sensors.heat import COOLED_BY, LOOKS_TO_BE_HOT, Heat, HeatLimits
from accelet.accelerators.sensors.sample import TEMPERATURE, TEMPERATURE_LIMIT, Sample

LIMITS = HeatLimits(chip=100.0)


def look(celsius: float | None, sensor: str = "pkg", crit: float | None = None) -> tuple[Sample, ...]:
    samples = [] if celsius is None else [Sample(TEMPERATURE, celsius, (sensor,))]
    return (*samples, *([] if crit is None else [Sample(TEMPERATURE_LIMIT, crit, (sensor, "crit"))]))


def after(*temperatures: float | None, limits: HeatLimits = LIMITS) -> list[bool]:
    """Whether it was hot after each look; None: it slept."""
    heat, found = Heat(), []
    for celsius in temperatures:
        heat = heat.followed_by(look(celsius), limits, is_active=celsius is not None)
        found.append(heat.reason is not None)
    return found


def test_three_looks_in_a_row_make_a_card_ill_and_five_degrees_make_it_well() -> None:
    assert after(100, 101, 99, 100, 100, 100, 96, 95, 99) == [False] * 5 + [True] * 2 + [False] * 2


def test_a_card_that_sleeps_is_not_hot() -> None:
    assert after(105, 105, 105, None, 105) == [False, False, True, False, False]


def test_a_hot_sensor_that_says_nothing_is_believed_for_two_more_looks() -> None:
    heat, found = Heat(), []
    for celsius in (110, 110, 110, None, None, 110, None, None, None, 110):
        heat = heat.followed_by(look(celsius), LIMITS)
        found.append(heat.reason is not None)
    assert found == [False, False, *[True] * 6, False, False]


def test_a_second_sensor_of_a_name_has_the_limit_of_the_first() -> None:
    assert HeatLimits(chip=100.0, memory=95.0).of("vram-3") == 95.0


def test_without_a_limit_no_heat_makes_a_card_ill() -> None:
    assert not any(after(149, 149, 149, 149, limits=HeatLimits()))


def test_memory_has_a_limit_of_its_own_and_other_sensors_have_none() -> None:
    for sensor, is_hot in (("vram", True), ("vram_ch_3", True), ("pkg", False), ("pcie", False)):
        heat = Heat()
        for _ in range(LOOKS_TO_BE_HOT):
            heat = heat.followed_by(look(99, sensor), HeatLimits(chip=100.0, memory=95.0))
        assert (heat.reason is not None) is is_hot, sensor


def test_a_limit_above_the_cards_own_is_lowered_to_that() -> None:
    heat = Heat()
    for _ in range(LOOKS_TO_BE_HOT):
        heat = heat.followed_by(look(91, crit=90.0), LIMITS)
    assert heat.reason == "it is too hot: its sensor pkg reached 90 °C, and has not cooled by 5 °C"


@given(st.lists(st.one_of(st.none(), st.integers(80, 120)), max_size=40))
def test_heat_is_as_a_plain_rereading_of_all_looks_has_it(temperatures: list[int | None]) -> None:
    expected: list[bool] = []
    for place in range(len(temperatures)):
        since = [n for n in range(place + 1) if temperatures[n] is None or temperatures[n] <= 100 - COOLED_BY]  # type: ignore[operator]  # None comes first
        warm = temperatures[(since[-1] + 1 if since else 0) : place + 1]
        runs = "".join("x" if celsius is not None and celsius >= 100 else "." for celsius in warm)
        expected.append("x" * LOOKS_TO_BE_HOT in runs)
    assert after(*temperatures) == expected
