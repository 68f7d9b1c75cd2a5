"""Wrong arguments end with a sentence and exit code 2, never with a traceback."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelet.cli import main
from accelet.control.installed import explain_install

COMMANDS = main.list_commands(main.make_context("accelet", [], resilient_parsing=True))
SERVING = {
    *("agent", "doctor", "scheduler", "demo", "conformance", "fake-kubelet", "explain", "provisioner"),
    *("task-controller", "ui"),
}
"""These begin work that lasts, or ask what runs here; what is tried of them stays wrong."""

WORDS = st.sampled_from(
    [
        "--config", "--json", "--host-root", "--http", "--node", "--nodes", "--pods", "--plans", "--jobs",
        "--dir", "--resource", "--only", "--plugin-command", "--kubeconfig", "--seed", "--no-such-option",
        "", "-", "--", "-x", ".", "/", "/nonexistent", "/dev/null", "/etc/passwd", "a/b/c", "0", "-1", "'",
        "\x00", "99999999999999999999", "ü", "a=b", "{dir}",
    ]
)  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from([name for name in COMMANDS if name not in SERVING]), st.lists(WORDS, max_size=5))
def test_no_arguments_lead_to_a_traceback(command: str, arguments: list[str]) -> None:
    result = run(command, *arguments)
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert result.exit_code in (0, 1, 2)
    assert "Traceback" not in result.output


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from([name for name in COMMANDS if name in SERVING]), st.lists(WORDS, max_size=5))
def test_a_wrong_argument_keeps_a_process_from_starting(command: str, arguments: list[str]) -> None:
    result = run(command, "--no-such-option", *arguments)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit) or result.exit_code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "there is no command in ''"),
        ("''", "there is no command"),
        ("sh -c 'echo", "cannot be split into words"),
        ("/", "cannot start the plugin"),
        ("/etc/passwd", "cannot start the plugin"),
    ],
)
def test_a_plugin_command_that_is_none_is_refused(command: str, said: str) -> None:
    result = run("conformance", "--plugin-command", command)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("/nonexistent", "/nonexistent is not there"),
        ("/etc/passwd", "/etc/passwd is no folder"),
        ("/etc", "no sys and no dev in /etc"),
    ],
)
def test_a_host_root_that_is_none_is_named(root: str, said: str) -> None:
    result = run("devices", "--host-root", root)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_a_configuration_that_serves_nothing_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nresources: []\n")
    result = run("devices", "--config", str(config))
    assert result.exit_code == 0
    assert result.output == "The configuration serves no resource: its `resources` are empty.\n"


@pytest.mark.parametrize("pod", ["a/b/c", "a", "/b", "a/", ""])
def test_what_is_no_pod_is_refused(pod: str) -> None:
    assert run("explain", pod).exit_code == 2


def test_a_fake_kubelet_leaves_a_living_kubelet_alone(tmp_path: Path) -> None:
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(os.fspath(folder / "kubelet.sock"))
        kubelet.listen()
        result = run("fake-kubelet", "--dir", str(tmp_path))
    assert result.exit_code == 2
    assert "a kubelet answers at" in " ".join(result.output.split())
    assert (folder / "kubelet.sock").is_socket()


def test_a_fake_kubelet_never_uses_the_real_ones_folder() -> None:
    result = run("fake-kubelet", "--dir", "/var/lib/kubelet")
    assert result.exit_code == 2
    assert "the real kubelet's own" in result.output


@pytest.mark.parametrize(
    ("name", "missing", "needs"),
    [
        ("cards", "numpy", f"cards needs numpy: {explain_install('scheduler')}"),
        ("plan", "numpy", f"plan needs numpy: {explain_install('scheduler')}"),
        ("scheduler", "numpy", f"scheduler needs numpy: {explain_install('scheduler')}"),
        ("scheduler", "kubernetes", f"scheduler needs kubernetes: {explain_install('cluster')}"),
        ("provisioner", "kubernetes", f"provisioner needs kubernetes: {explain_install('cluster')}"),
        ("provisioner", "urllib3", f"provisioner needs kubernetes: {explain_install('cluster')}"),
    ],
)
def test_help_and_completion_do_without_extras(name: str, missing: str, needs: str) -> None:
    code = (
        f"import sys; sys.modules['{missing}'] = None\n"
        "from accelet.cli import main\n"
        f"main(['{name}', *sys.argv[1:]])"
    )

    def without(*arguments: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-c", code, *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    helped = without("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert needs.partition(" ")[2] in helped.stdout, "why its options are not shown"
    tried = without("--json")
    assert tried.returncode == 1
    assert tried.stderr == f"Error: {needs}\n"


def test_a_stale_kubeconfig_does_not_keep_files_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
    empty = tmp_path / "list.json"
    empty.write_text('{"items": []}')
    assert run("cards", "--nodes", str(empty), "--pods", str(empty)).exit_code == 0
