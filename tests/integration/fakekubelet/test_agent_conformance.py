"""The agent passes its own conformance checks, on every kubelet."""

import shlex
import sys
from pathlib import Path

import pytest

from accelet.fakekubelet.behaviour import VERSIONS
from accelet.fakekubelet.conformance import CHECKS, CommandHardware, CommandLauncher, Status, run_checks

CONFIG = """
version: v1
resources:
  - name: example.com/thing
    backend: files
    paths: ["/dev/thing*"]
  - name: example.com/other
    backend: files
    paths: ["/dev/other"]
"""

AGENT = """
mkdir -p {root}/host/dev {root}/host/sys
[ -e {root}/host/dev/other ] || (cd {root}/host/dev && touch other thing0 thing1 thing2)
set -- --config $CONFIG --host-root {root}/host --kubelet-dir {root} --http= --node-name node
exec $PYTHON -m accelet agent "$@"
"""

MOVE = "name=$(echo {device} | sed s/dev-//); mv {root}/%s/$name {root}/%s/$name"


def shell(script: str) -> str:
    return shlex.join(["sh", "-c", script])


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_agent_conforms(version: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    command = AGENT.replace("$PYTHON", shlex.quote(sys.executable)).replace(
        "$CONFIG", shlex.quote(str(config))
    )
    launcher = CommandLauncher(shell(command))
    hardware = CommandHardware(shell(MOVE % ("host/dev", ".")), shell(MOVE % (".", "host/dev")))
    wanted = {
        "version": version,
        "resource": "example.com/thing",
        "hardware": hardware,
        "host_root": "{root}/host",
    }
    found = await run_checks(CHECKS, launcher, jobs=4, **wanted)  # type: ignore[arg-type] # by name
    # Some checks measure time and four run at once: what failed has to fail alone too.
    again = {result.id for result in found if result.status is Status.FAIL}
    alone = await run_checks(
        [check for check in CHECKS if check.id in again],
        launcher,
        jobs=1,
        **wanted,  # type: ignore[arg-type] # by name
    )
    assert {result.id: result.detail for result in alone if result.status is Status.FAIL} == {}
    # Plain files ask for no PreStartContainer and no podresources, and bring no variables and no NUMA nodes.
    skipped = {result.id for result in found if result.status is Status.SKIP}
    assert skipped == {"A12", "A13", "A14", "G4", "G5", "L12"}
