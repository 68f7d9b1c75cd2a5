from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.recording.eventlog import EventLimits, EventLog, Message, Series, Subject

LIMITS = EventLimits(burst_each=2, per_s_each=0.1, burst=5, per_s=1.0, remembered=10, quiet_s=60.0)


def message(subject: str = "p", note: str = "n", namespace: str = "ml") -> Message:
    return Message(
        Subject("Pod", subject, namespace, f"uid-{subject}"), "Warning", "Refused", "Allocate", note
    )


def send_all(log: EventLog, now_s: float) -> list[Series]:
    sent = []
    while isinstance(series := log.take(now_s), Series):
        series.sent = series.count
        series.name = series.name or "an-event"
        sent.append(series)
    return sent


def test_same_message_is_one_series() -> None:
    log = EventLog(LIMITS, 0.0)
    for number in range(3):
        log.say(message(), float(number), f"t{number}")
    log.say(message(note="other"), 3.0, "t3")
    first, second = send_all(log, 3.0)
    assert (first.count, first.first, first.last) == (3, "t0", "t2")
    assert (second.count, second.message.note) == (1, "other")
    assert log.take(3.0) is None


def test_repetition_is_sent_as_a_count_when_its_turn_comes() -> None:
    log = EventLog(LIMITS, 0.0)
    log.say(message(), 0.0, "t0")
    send_all(log, 0.0)
    for number in range(5):
        log.say(message(), 1.0, f"t{number}")
        send_all(log, 1.0)
    waiting = log.take(1.0)
    assert isinstance(waiting, float)
    assert 0 < waiting <= 10
    (series,) = send_all(log, 1.0 + waiting + 0.001)
    assert series.count == 6


def test_noisy_subject_does_not_silence_the_others() -> None:
    log = EventLog(LIMITS, 0.0)
    for number in range(8):
        log.say(message("noisy", str(number)), 0.0, "t")
    log.say(message("quiet"), 0.0, "t")
    assert [series.message.subject.name for series in send_all(log, 0.0)] == ["noisy", "noisy", "quiet"]


def test_series_ends_when_nothing_was_said_for_long() -> None:
    log = EventLog(LIMITS, 0.0)
    log.say(message(), 0.0, "t0")
    send_all(log, 0.0)
    assert log.take(61.0) is None
    log.say(message(), 61.0, "t1")
    (series,) = send_all(log, 61.0)
    assert (series.count, series.first) == (1, "t1")


def test_flood_is_bounded_and_what_is_lost_is_counted() -> None:
    log = EventLog(LIMITS, 0.0)
    for number in range(100):
        log.say(message(f"p{number}"), 0.0, "t")
    assert log.dropped == 90
    assert len(send_all(log, 0.0)) == 5
    assert len(send_all(log, 100.0)) == 5


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0, 3)), max_size=80))
def test_limits_hold_and_counts_add_up(steps: list[tuple[int, int, float]]) -> None:
    log = EventLog(LIMITS, 0.0)
    now_s, said, sent, counted = 0.0, 0, 0, 0
    for subject, note, passed_s in steps:
        now_s += passed_s
        log.say(message(f"p{subject}", str(note)), now_s, "t")
        said += 1
        while isinstance(series := log.take(now_s), Series):
            counted += series.count - series.sent
            series.sent = series.count
            sent += 1
    assert sent <= LIMITS.burst + now_s * LIMITS.per_s + 1e-6
    while (step := log.take(now_s)) is not None:
        if isinstance(step, Series):
            counted += step.count - step.sent
            step.sent = step.count
        else:
            now_s += step + 1e-6
    assert counted + log.dropped == said


@given(st.lists(st.sampled_from("abc"), max_size=LIMITS.remembered // 2 - 1), st.integers(20, 200))
def test_a_namespace_of_which_much_is_said_keeps_nothing_of_others_from_being_sent(
    others: list[str], flood: int
) -> None:
    """Its own goes first where there is too much, and namespaces take turns.

    The others have less than half of the room, so that none of them can have the most.
    """
    log = EventLog(LIMITS, 0.0)
    said = [message(f"p{number}", namespace=name) for number, name in enumerate(others)]
    for number in range(flood):
        log.say(message(f"m{number}", namespace="mallory"), 0.0, "t")
    for one in said:
        log.say(one, 0.0, "t")
    for number in range(flood):
        log.say(message(f"n{number}", namespace="mallory"), 0.0, "t")
    sent: list[Message] = []
    for second in range(20):
        sent += [series.message for series in send_all(log, float(second))]
    assert {one for one in sent if one.subject.namespace != "mallory"} == set(said)
    last = max((sent.index(one) for one in said), default=0)
    most = max((others.count(name) for name in others), default=0)
    assert last <= len(said) + most, "as many of hers as there were turns, at most"
    assert len(sent) == LIMITS.remembered


def test_nothing_is_kept_of_namespaces_of_which_nothing_is_said_any_more() -> None:
    log = EventLog(LIMITS, 0.0)
    for number in range(100):
        log.say(message(namespace=f"n{number}"), 100.0 * number, "t")
        send_all(log, 100.0 * number)
    assert len(repr(log)) < 5_000


def test_what_is_said_of_a_thousand_gangs_and_their_owners_at_once_is_all_sent() -> None:
    log = EventLog(EventLimits(burst=200.0, per_s=20.0, remembered=10_000), 0.0)
    said = [message(f"{kind}-{number}") for number in range(1000) for kind in ("pod", "job")]
    for one in said:
        log.say(one, 0.0, "t")
    sent: list[Series] = []
    for second in range(91):
        sent += send_all(log, float(second))
    assert [series.message for series in sent] == said
    assert log.dropped == 0
