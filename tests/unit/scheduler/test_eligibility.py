from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.selection import NodeTerm, Requirement, Taint, Toleration
from accelet.scheduler.cluster.eligibility import (
    barriers,
    first_barrier,
    holds,
    holds_name,
    tolerates,
)
from accelet.scheduler.cluster.layout import lay_out
from accelet.scheduler.cluster.shape import NodeRules
from accelet.scheduler.cluster.topology import Scheme


@pytest.mark.parametrize(
    ("operator", "values", "label", "is_met"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), "c", False),
        ("In", ("a",), None, False),
        ("In", (), "a", False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("NotIn", (), "a", False),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("Exists", ("a",), "a", False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "a", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), None, False),
        ("Gt", ("5",), "six", False),
        ("Gt", ("five",), "6", False),
        ("Gt", ("5", "6"), "7", False),
        ("Gt", ("5",), "99999999999999999999", False),
        ("Lt", ("5",), "-4", True),
        ("Lt", ("5",), "5", False),
        ("Lt", ("5",), "0_4", False),
        ("Near", ("a",), "a", False),
        ("NotIn", ("-a",), "b", False),
        ("NotIn", ("a" * 64,), "b", False),
        ("In", ("b", "no label"), "b", False),
        ("In", ("",), "", True),
        ("Gt", ("-5",), "6", False),
    ],
)
def test_a_requirement_is_met_as_kube_scheduler_judges(
    operator: str, values: tuple[str, ...], label: str | None, is_met: bool
) -> None:
    assert holds(Requirement("key", operator, values), label) is is_met


@pytest.mark.parametrize(
    ("requirement", "is_met"),
    [
        (Requirement("metadata.name", "In", ("n1",)), True),
        (Requirement("metadata.name", "In", ("n1", "n2")), False),
        (Requirement("metadata.name", "NotIn", ("n2",)), True),
        (Requirement("metadata.name", "NotIn", ("n" * 64,)), True),
        (Requirement("metadata.name", "Exists"), False),
        (Requirement("metadata.namespace", "In", ("n1",)), False),
    ],
)
def test_match_fields_know_one_name(requirement: Requirement, is_met: bool) -> None:
    assert holds_name(requirement, "n1") is is_met


def matches(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets all of a term; one without any requirement matches no node."""
    return (
        bool(term.expressions or term.fields)
        and all(holds(requirement, labels.get(requirement.key)) for requirement in term.expressions)
        and all(holds_name(requirement, name) for requirement in term.fields)
    )


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("k", "Exists", "", "NoExecute"), False),
        (Toleration("j", "Exists"), False),
        (Toleration("k", "Gt", "1"), False),
    ],
)
def test_a_toleration_covers_a_taint_by_key_value_and_effect(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, Taint("k", "NoSchedule", "v")) is covers


def test_any_one_of_two_tolerations_of_a_key_is_enough() -> None:
    taint = Taint("k", "NoSchedule", "v")
    assert first_barrier([taint], frozenset({Toleration("k", value="v"), Toleration("k", value="w")})) is None


def test_a_preference_keeps_nobody_away() -> None:
    assert barriers(Node("n", taints=(Taint("k", "PreferNoSchedule"),))) == ()


def test_a_cordoned_node_takes_only_pods_that_tolerate_cordons() -> None:
    (barrier,) = barriers(Node("n", unschedulable=True))
    assert first_barrier([barrier], frozenset()) == barrier
    assert first_barrier([barrier], frozenset({Toleration("", "Exists")})) is None


@pytest.mark.parametrize(
    ("conditions", "is_barred"),
    [
        ((Condition("Ready", "True"),), False),
        ((Condition("Ready", "False"),), True),
        ((Condition("Ready", "Unknown"),), True),
        ((), False),
    ],
)
def test_a_node_that_is_not_ready_is_barred_before_its_taint_is_written(
    conditions: tuple[Condition, ...], is_barred: bool
) -> None:
    assert bool(barriers(Node("n", conditions=conditions))) is is_barred


_VALUES = st.sampled_from(("1", "2", "10", "x"))
_REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(("a", "b")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    st.lists(_VALUES, max_size=2).map(tuple),
)
_FIELDS = st.builds(
    Requirement,
    st.just("metadata.name"),
    st.sampled_from(("In", "NotIn")),
    st.sampled_from((("n0",), ("n1",), ("n0", "n1"))),
)
_TERMS = st.builds(
    NodeTerm, st.lists(_REQUIREMENTS, max_size=2).map(tuple), st.lists(_FIELDS, max_size=1).map(tuple)
)
_EFFECTS = st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule"))
_TAINTS = st.builds(Taint, st.sampled_from("kl"), _EFFECTS, st.sampled_from(("", "v")))
_TOLERATIONS = st.builds(
    Toleration,
    st.sampled_from(("", "k", "l")),
    st.sampled_from(("Equal", "Exists")),
    st.sampled_from(("", "v")),
    st.sampled_from(("", "NoSchedule", "NoExecute")),
)
_FEATURES = st.sampled_from(("Restarts", "Users"))
_NODES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(("a", "b")), _VALUES),
        st.lists(_TAINTS, max_size=2).map(tuple),
        st.booleans(),
        st.frozensets(_FEATURES),
    ),
    min_size=1,
    max_size=4,
)


@given(
    nodes=_NODES,
    selector=st.dictionaries(st.sampled_from(("a", "b")), _VALUES, max_size=1),
    terms=st.one_of(st.none(), st.lists(_TERMS, max_size=2).map(tuple)),
    tolerations=st.frozensets(_TOLERATIONS, max_size=2),
    features=st.frozensets(_FEATURES),
)
def test_judging_values_once_agrees_with_judging_every_node(
    nodes: list[tuple[dict[str, str], tuple[Taint, ...], bool, frozenset[str]]],
    selector: dict[str, str],
    terms: tuple[NodeTerm, ...] | None,
    tolerations: frozenset[Toleration],
    features: frozenset[str],
) -> None:
    listed = [
        Node(f"n{number}", labels=labels, taints=taints, unschedulable=is_cordoned, features=declared)
        for number, (labels, taints, is_cordoned, declared) in enumerate(nodes)
    ]
    layout = lay_out(Scheme(), listed)
    rules = NodeRules(frozenset(selector.items()), terms, tolerations, features=features)
    judged = [
        first_barrier(barriers(node), tolerations) is None
        and features <= node.features
        and all(node.labels.get(key) == value for key, value in selector.items())
        and (terms is None or any(matches(term, node.labels, node.name) for term in terms))
        for node in layout.nodes
    ]
    assert layout.eligible(rules).tolist() == judged
    assert layout.refusals(rules).total() == judged.count(False)
