"""`python -m tests.recorded FOLDER`: what the scanners make of a folder of recorded machines.

Each archive (`*.tgz`, `*.tar.gz`, `*.tar`) is unpacked, each machine in it scanned by every back-end. Printed
is what is served, what is skipped, and why. A file `NAME.expected` beside `NAME.tgz` must say exactly what is
printed of that archive; `--write` writes these files. The exit status is 1 if a scanner fails or an
expectation differs.
"""

import argparse
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

from tests.recorded.archives import ENDINGS, is_archive, unpack
from tests.recorded.machines import find_machines
from tests.recorded.replay import Replay, replay


def replay_archive(archive: Path) -> Replay:
    """All machines of an archive, in order of their paths in it."""
    with tempfile.TemporaryDirectory() as folder:
        unpacked = Path(folder) / "unpacked"
        unpacked.mkdir()
        try:
            left_out = unpack(archive, unpacked)
        except (OSError, ValueError, tarfile.TarError) as error:
            line = f"FAILED: {archive.name} cannot be unpacked: {error}"
            return Replay((line,), (line,))
        lines, failures = [], []
        for number, machine in enumerate(find_machines(unpacked)):
            root = Path(folder) / f"host{number}"
            root.mkdir()
            lines.append(f"{machine.name} ({machine.form})")
            try:
                lines += (f"  made up: {one}" for one in machine.write(root))
            except (OSError, ValueError, LookupError, TypeError) as error:
                failures.append(f"  FAILED: no host could be made of it: {type(error).__name__}: {error}")
                lines.append(failures[-1])
                continue
            seen = replay(root)
            lines += seen.lines or ("  no accelerator",)
            failures += seen.failures
        lines += [f"{left_out} entries were left out: they lead out of the archive"] if left_out else []
        return Replay(tuple(lines or ("no machine of a known form",)), tuple(failures))


def compare(said: Sequence[str], expectation: Path) -> Iterator[str]:
    """Lines of a difference; none where there is no such file or it says the same."""
    if expectation.is_file():
        expected = expectation.read_text().splitlines()
        yield from unified_diff(expected, list(said), expectation.name, "printed", lineterm="")


def expectation_of(archive: Path) -> Path:
    stem = next(archive.name.removesuffix(end) for end in ENDINGS if archive.name.endswith(end))
    return archive.with_name(f"{stem}.expected")


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the expectation files")
    asked = parser.parse_args(words)
    archives = [path for path in sorted(asked.folder.glob("*")) if is_archive(path)]
    if not archives:
        sys.stdout.write(f"{asked.folder} has no archive ({', '.join(ENDINGS)})\n")
        return 1
    wrong = 0
    for archive in archives:
        seen = replay_archive(archive)
        sys.stdout.write("\n".join((archive.name, *seen.lines)) + "\n")
        if asked.write:
            expectation_of(archive).write_text("\n".join(seen.lines) + "\n")
        different = list(compare(seen.lines, expectation_of(archive)))
        sys.stdout.writelines(f"{line}\n" for line in different)
        wrong += bool(different or seen.failures)
    sys.stdout.write(f"{len(archives)} archives, {wrong} with a fault\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
