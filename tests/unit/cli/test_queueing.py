"""What `accelet task why` says of a Workload, whatever is written on it."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.cli.tasks.queueing import UNSEEN, say_queued, say_unanswered
from accelet.kube.errors import ServerError

_TEXTS = st.one_of(st.none(), st.text(max_size=2000))
_TRUTHS = st.sampled_from(["True", "False", "Unknown"])
_CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["QuotaReserved", "Admitted", "Evicted"]), "status": _TRUTHS},
        optional={"message": _TEXTS},
    ),
    max_size=4,
)
_CHECKS = st.lists(
    st.fixed_dictionaries({"name": st.text(), "state": st.text()}, optional={"message": _TEXTS}), max_size=20
)
_ANYTHING = st.recursive(st.one_of(st.none(), st.booleans(), st.text()), st.lists)


def _workload(spec: Any, status: Any) -> bytes:
    return json.dumps({"metadata": {"name": "w"}, "spec": spec, "status": status}).encode()


@given(
    st.one_of(st.none(), st.fixed_dictionaries({}, optional={"active": st.booleans()})),
    st.one_of(
        st.none(),
        st.fixed_dictionaries({}, optional={"conditions": _CONDITIONS, "admissionChecks": _CHECKS}),
    ),
)
def test_a_workload_that_is_not_admitted_is_a_bounded_sentence_in_one_line(spec: Any, status: Any) -> None:
    said = say_queued([_workload(spec, status)])
    held = {one["type"]: one["status"] for one in (status or {}).get("conditions") or ()}
    is_free = held.get("QuotaReserved") == held.get("Admitted") == "True" and (spec or {}).get("active", True)
    assert (said == "") == is_free
    assert len(said) <= 900
    assert len(said.splitlines()) <= 1


@given(_ANYTHING, _ANYTHING)
def test_what_is_no_workload_says_nothing(spec: Any, status: Any) -> None:
    assert say_queued([b"{", json.dumps([spec]).encode()]) == UNSEEN
    assert isinstance(say_queued([_workload(spec, status)]), str)


def test_a_workload_that_goes_says_nothing_any_more() -> None:
    going = {"metadata": {"name": "w", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert say_queued([json.dumps(going).encode()]) == UNSEEN


@given(st.text(max_size=3000))
def test_that_kueue_s_own_webhook_is_down_is_told_and_is_no_end_of_the_command(message: str) -> None:
    said = say_unanswered(ServerError("GET workloads", 500, "InternalError", message))
    assert said.startswith("what Kueue says of it cannot be read: ")
    assert said == " ".join(said.split())
    assert len(said) <= 900
