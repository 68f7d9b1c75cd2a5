"""Hypothesis profiles: `default` is bounded for `make test`, `thorough` for `make properties`, a part of CI.

`make thorough` uses the second too; `soak` and `long` are for `make soak`."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # before grpc is imported: its C core writes to stderr

import pytest
from hypothesis import HealthCheck, settings

from tests.long import MARK, read_long

# What the person who runs the tests has set for her own `accelet` is not for them.
for _name in (
    "ACCELET_CDI_DIR",
    "ACCELET_CONFIG",
    "ACCELET_HOST_ROOT",
    "ACCELET_HTTP",
    "ACCELET_KUBECONFIG",
    "ACCELET_KUBELET_DIR",
    "ACCELET_KUBELET_ROOT_DIR",
    "ACCELET_LOG_LEVEL",
    "ACCELET_POD_RESOURCES_DIR",
    "KUBECONFIG",
    "POD_NAMESPACE",
):
    os.environ.pop(_name, None)

settings.register_profile(
    "default",
    max_examples=20,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=100)
settings.register_profile(
    "soak", parent=settings.get_profile("default"), max_examples=10_000, derandomize=False
)
settings.register_profile("long", parent=settings.get_profile("soak"), max_examples=100_000)
settings.load_profile(os.environ.get("ACCELET_HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that take long."""
    long = read_long()
    for item in items:
        if item.nodeid.partition("[")[0] in long:
            item.add_marker(MARK)
