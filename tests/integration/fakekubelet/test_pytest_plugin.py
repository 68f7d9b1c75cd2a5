"""The fixtures that other people's tests get, in a pytest run of their own."""

import subprocess
import sys
from pathlib import Path

STORY = """
from accelet.fakekubelet import a_pod

async def test_passes(fake_kubelet):
    pod = await fake_kubelet.admit(a_pod())
    assert pod.admitted
    assert str(fake_kubelet.version) == "1.33"
    assert len(str(fake_kubelet.plugins_dir)) < 60

async def test_fails(make_fake_kubelet):
    async with make_fake_kubelet(seed=7) as kubelet:
        await kubelet.admit(a_pod("seen"))
        assert False
"""


def pytest_run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_fixtures_are_there_and_a_failure_shows_seed_and_trace(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(STORY)
    done = pytest_run(tmp_path, "--kubelet-version", "1.33")
    assert "1 failed, 1 passed" in done.stdout
    assert "fake kubelet 1.33, seed 7" in done.stdout
    assert any(line.split()[1:] == ["admitted", "default/seen"] for line in done.stdout.splitlines())


def test_a_run_that_does_not_use_it_loads_no_grpc(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\ndef test_light(): assert not {'grpc', 'google.protobuf'} & set(sys.modules)\n"
    )
    assert "1 passed" in pytest_run(tmp_path).stdout
