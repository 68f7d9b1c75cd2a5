"""README and every page of docs, word by word, on a fresh Debian with Python's index alone.

make test-newcomer       # needs root, debootstrap and deb.debian.org; some ten minutes
"""

from collections.abc import Iterator

import pytest

from accelet.fakehost.gpus import Gpu, write_gpus
from tests.newcomer.documents import DOCUMENTS, Block, Step, missing_from, read_blocks, read_steps
from tests.newcomer.machine import Machine, fresh_machine

pytestmark = [pytest.mark.timeout(2400), pytest.mark.xdist_group("newcomer")]

_LINE_S = 1200.0

NODE = (
    Gpu(0, "0000:03:00.0", numa=0),
    Gpu(1, "0000:04:00.0", numa=1),
    Gpu(2, "0000:83:00.0", driver="vfio-pci", has_drm=False, has_nodes=False),
)
"""What README's `accelet devices` looks at."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with fresh_machine(tmp_path_factory.mktemp("debian")) as made:
        made.prepare()
        write_gpus(made.root / "srv/node", NODE)
        yield made


def steps() -> Iterator[tuple[Step, tuple[Block, ...]]]:
    """What can be typed on a machine alone, README first, and the files that its document shows before."""
    for document in DOCUMENTS:
        blocks = read_blocks(document)
        for step in read_steps(blocks):
            if not step.is_only_looked_at:
                yield step, tuple(block for block in blocks if block.file and block.line < step.block.line)


STEPS = list(steps())


@pytest.mark.parametrize(("step", "files"), STEPS, ids=[f"{step.block} {step.typed[0]}" for step, _ in STEPS])
def test_documented_command_does_what_the_document_says(
    machine: Machine, step: Step, files: tuple[Block, ...]
) -> None:
    for block in files:
        (machine.checkout / str(block.file)).write_text(block.text + "\n")
    script = "set -e\n" + "\n".join(step.typed)
    try:
        done = machine.type(script, _LINE_S)
    finally:
        for block in files:
            (machine.checkout / str(block.file)).unlink()
    assert bool(done.returncode) == step.fails, done.stdout[-6000:]
    if step.shown is not None:
        assert missing_from(done.stdout, step.shown) == [], done.stdout[-6000:]
