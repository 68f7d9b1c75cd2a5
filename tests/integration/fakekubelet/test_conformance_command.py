"""`accelet conformance` as a command."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelet.fakekubelet.conformance.launch import KUBELET_DIR
from tests.output_forms import read_form

SAMPLE = f"{sys.executable} -m accelet.fakekubelet.sample_plugin --dir {{dir}} --devices"


@pytest.fixture
def place_to_mount_over() -> Iterator[None]:
    """/var/lib/kubelet, which a machine without a kubelet does not have."""
    is_new = not KUBELET_DIR.exists()
    KUBELET_DIR.mkdir(parents=True, exist_ok=True)
    yield
    if is_new:
        KUBELET_DIR.rmdir()


def conformance(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "accelet", "conformance", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_json_has_one_object_for_each_check(devices: Path) -> None:
    done = conformance("--plugin-command", f"{SAMPLE} {devices}", "--only", "l5,R1,L10", "--json")
    assert done.returncode == 0
    checks = read_form("conformance", done.stdout)["checks"]
    assert [(check["id"], check["status"]) for check in checks] == [
        ("R1", "pass"),
        ("L5", "pass"),
        ("L10", "skip"),
    ]
    assert {frozenset(check) for check in checks} == {frozenset({"id", "title", "status", "detail"})}


def test_the_table_is_for_people(devices: Path) -> None:
    done = conformance("--plugin-command", f"{SAMPLE} {devices}", "--only", "R1")
    assert "registers and lists its devices" in done.stdout
    assert "example.com/sample with 4 devices" in done.stdout
    assert "1 passed, 0 failed, 0 not judged" in done.stdout


def test_a_plugin_that_ends_at_once_fails_and_its_last_words_are_shown() -> None:
    done = conformance("--plugin-command", "sh -c 'echo no GPU here; exit 3'", "--json")
    assert done.returncode == 1
    first, *others = json.loads(done.stdout)["checks"]
    assert first["status"] == "fail"
    assert "it ended with 3 and wrote: no GPU here" in first["detail"]
    assert {check["status"] for check in others} == {"skip"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "R99"], "--only: no check is called R99; there are R1, R2"),
        (["--unplug-command", "true"], "give --unplug-command and --replug-command together"),
        (["--kubelet-version", "1.2"], "'1.2' is not one of"),
        ([], "cannot start the plugin"),
        (["--jobs", "0"], "--jobs"),
        (["--dra", "--only", "R1"], "--only: no check is called R1; there are D1, D2"),
        (["--dra", "--resource", "x.com/y"], "--resource and --unplug-command are for device plugins"),
        (["--driver", "x.com"], "--driver needs --dra"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], complaint: str) -> None:
    done = conformance("--plugin-command", "/no/such/plugin", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.usefixtures("place_to_mount_over")
def test_a_plugin_may_see_a_var_lib_kubelet_of_its_own(devices: Path) -> None:
    command = f"{sys.executable} -m accelet.fakekubelet.sample_plugin --devices {devices} --dir"
    before = sorted(KUBELET_DIR.iterdir())
    done = conformance(
        "--plugin-command",
        f"{command} /var/lib/kubelet/device-plugins",
        "--mount-namespace",
        "--only",
        "R1,R4,S2",
        "--json",
    )
    assert [check["status"] for check in json.loads(done.stdout)["checks"]] == ["pass"] * 3
    assert sorted(KUBELET_DIR.iterdir()) == before


def test_what_a_plugin_says_is_no_markup() -> None:
    said = "no device [/dev/x] [main]"
    done = conformance("--plugin-command", f"sh -c 'echo \"{said}\"; exit 3'")
    assert done.returncode == 1
    assert said in done.stdout
    assert "Traceback" not in done.stderr


def test_the_last_lines_of_a_plugin_that_ended_are_shown() -> None:
    done = conformance("--plugin-command", "sh -c 'seq 1 4000; echo the cause; exit 3'", "--json")
    detail = json.loads(done.stdout)["checks"][0]["detail"]
    assert detail == "it ended with 3 and wrote at the end:\n3997\n3998\n3999\n4000\nthe cause"


@pytest.mark.thorough  # the suite gives up after 10 s
def test_a_resource_that_is_not_registered_is_told_with_those_that_are(devices: Path) -> None:
    wrong = ["--resource", "example.com/other", "--only", "R1", "--json"]
    done = conformance("--plugin-command", f"{SAMPLE} {devices}", *wrong)
    detail = json.loads(done.stdout)["checks"][0]["detail"]
    assert detail.startswith("example.com/other did not register and list in 10 s")
    assert "what registered is example.com/sample" in detail


def test_a_run_that_judged_nothing_is_no_success(devices: Path) -> None:
    done = conformance("--plugin-command", f"{SAMPLE} {devices}", "--only", "L10,R17", "--json")
    assert {check["status"] for check in json.loads(done.stdout)["checks"]} == {"skip"}
    assert done.returncode == 3


def test_the_hosts_files_may_be_in_a_folder(devices: Path, root: Path) -> None:
    (root / "host" / "dev").mkdir(parents=True)
    (root / "host" / "dev" / "card0").touch()
    for device in devices.iterdir():
        device.write_text("healthy node=/dev/card0")
    only = ["--plugin-command", f"{SAMPLE} {devices}", "--only", "G6", "--json"]
    there = json.loads(conformance(*only, "--host-root", str(root / "host")).stdout)["checks"][0]
    # The sample's mounts are of this machine, and so absent in that folder.
    assert there["status"] == "fail"
    assert "card0" not in there["detail"]
    absent = json.loads(conformance(*only).stdout)["checks"][0]
    assert absent["detail"] == "/dev/card0 is not on the host"


def test_what_was_not_seen_is_not_judged(devices: Path) -> None:
    done = conformance("--plugin-command", f"{SAMPLE} {devices}", "--only", "R1,L7,A13,A14", "--json")
    found = {check["id"]: check["status"] for check in json.loads(done.stdout)["checks"]}
    assert found == {"R1": "pass", "L7": "skip", "A13": "skip", "A14": "skip"}
