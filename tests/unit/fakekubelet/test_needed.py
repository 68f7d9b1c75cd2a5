"""How many devices a pod counts for, and which resource names are taken."""

import pytest

from accelet.fakekubelet.admission import needed
from accelet.fakekubelet.pods import a_container, a_pod
from accelet.kubelet.resourcename import explain_bad_resource_name

R = "a.b/c"


@pytest.mark.parametrize(
    ("init", "sidecars_at", "main", "expected"),
    [([], [], [1, 2], 3), ([5], [], [1], 5), ([2, 1, 3], [1], [1, 3], 5), ([1, 4], [0], [2], 5)],
)
def test_a_pod_counts_for_its_greediest_moment(
    init: list[int], sidecars_at: list[int], main: list[int], expected: int
) -> None:
    pod = a_pod(
        init_containers=[
            a_container(f"i{n}", {R: count}, restart_policy="Always" if n in sidecars_at else None)
            for n, count in enumerate(init)
        ],
        containers=[a_container(f"m{n}", {R: count}) for n, count in enumerate(main)],
    )
    assert needed(pod, R) == expected


@pytest.mark.parametrize(
    "name", ["a.b/c", "gpu.intel.com/i915", "a/B_c.d-e", "google.com/tpu", f"a.b/{'x' * 63}"]
)
def test_names_the_kubelet_takes(name: str) -> None:
    assert explain_bad_resource_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "cpu", "a.b/", "/c", "a.b/c/d", "A.b/c", "a..b/c", "kubernetes.io/c", "requests.a/b", "a.b/-c",
     f"a.b/{'x' * 64}", f"{'a' * 245}/c"],
)  # fmt: skip
def test_names_the_kubelet_refuses(name: str) -> None:
    assert explain_bad_resource_name(name) is not None
