"""What disruption budgets say of ending pods."""

from dataclasses import replace
from typing import Any

import pytest

from accelet.kube.writing.disruption import DisruptionBudget, LabelRule, parse_budget, why_forbidden


def _budget(selector: Any, allowed: int | None = 1) -> DisruptionBudget:
    status = {} if allowed is None else {"status": {"disruptionsAllowed": allowed}}
    return parse_budget(
        {"metadata": {"name": "b", "namespace": "ml"}, "spec": {"selector": selector}, **status}
    )


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "SomeDay"}]}, True),
    ],
)
def test_a_budget_is_about_the_pods_that_it_selects(selector: Any, covers: bool) -> None:
    assert _budget(selector).covers("ml", {"app": "a"}) is covers
    assert not _budget(selector).covers("other", {"app": "a"})


def test_as_many_may_end_at_once_as_the_budget_allows() -> None:
    labels = [{"app": "a"}, {"app": "a"}]
    assert why_forbidden("ml", labels, [_budget({}, 2)]) == ""
    assert why_forbidden("ml", labels, [_budget({}, 1)]) == (
        "the disruption budget b lets 1 of its 2 pods be disrupted now"
    )
    assert why_forbidden("ml", labels[:1], [_budget({}, None)]) != ""


def test_an_overdrawn_budget_says_nothing_of_pods_that_are_not_its() -> None:
    over = DisruptionBudget("ml", "b", (LabelRule("app", "Exists"),), -1)
    assert why_forbidden("ml", [{"other": "x"}], [over]) == ""


def test_a_pod_of_two_budgets_cannot_be_evicted_at_all() -> None:
    """The API server answers with an error to that, whatever both allow."""
    two = [replace(_budget({}, 5), name=name) for name in ("a", "b")]
    assert why_forbidden("ml", [{"app": "x"}], two) == (
        "one of its pods is covered by 2 disruption budgets, a and another: no eviction of it is served"
    )
    apart = [DisruptionBudget("ml", one, (LabelRule(one, "Exists"),), 1) for one in ("a", "b")]
    assert why_forbidden("ml", [{"a": ""}, {"b": ""}], apart) == ""
    assert why_forbidden("ml", [{"a": "", "b": ""}], apart) != ""
