"""What is said when the machine cannot carry a cluster. No cluster is started here."""

import dataclasses
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import OWN_BINARIES_VARIABLE, BinaryMissingError, cluster_binaries
from tests.e2e.cluster.requirements import PACKAGE_OF_COMMAND, Machine, RequirementsError, check

COMPLETE = Machine(
    is_root=True, go_version=(1, 26), commands=frozenset(PACKAGE_OF_COMMAND), brings_own_binaries=False
)


def test_complete_machine_is_accepted() -> None:
    check(COMPLETE)


def test_everything_missing_is_said_at_once_with_its_remedy() -> None:
    bare = Machine(is_root=False, go_version=None, commands=frozenset({"ip"}), brings_own_binaries=False)

    with pytest.raises(RequirementsError) as raised:
        check(bare)

    assert str(raised.value).splitlines() == [
        "The real cluster cannot start on this machine:",
        "  - root: namespaces, mounts and cgroups are made",
        "    sudo make e2e",
        "  - Debian packages: busybox-static, chromium, mount, openssl, runc, util-linux",
        (
            "    as root: apt-get update && apt-get install --yes --no-install-recommends"
            " busybox-static chromium mount openssl runc util-linux"
        ),
        "  - Go 1.26 or newer to build Kubernetes (found: none)",
        (
            "    get it from https://go.dev/dl/ and put it in PATH, or set ACCELET_KUBE_BIN"
            " to a folder with ready-made binaries (see tests/e2e/README.md)"
        ),
    ]


def test_old_go_is_refused_unless_ready_made_binaries_are_brought() -> None:
    old_go = dataclasses.replace(COMPLETE, go_version=(1, 25))

    with pytest.raises(RequirementsError, match=r"found: 1\.25"):
        check(old_go)
    check(dataclasses.replace(old_go, brings_own_binaries=True))


def test_ready_made_binaries_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWN_BINARIES_VARIABLE, str(tmp_path))

    with pytest.raises(BinaryMissingError, match="lacks kube-apiserver, kube-controller-manager"):
        cluster_binaries(lambda _: None)
