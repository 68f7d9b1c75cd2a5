"""`make bench`: measures the agent and prints what it found beside what it aims at."""

import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path

# Read by gRPC's C core when it is loaded; its notices would land in the output.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
from rich.text import Text

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records, styled
from benches.agent.allocating import measure_allocate
from benches.agent.figures import Figure, Section
from benches.agent.listing import measure_long_list
from benches.agent.matching import measure_matching
from benches.agent.processes import compile_ahead
from benches.agent.restarting import measure_restarts
from benches.agent.resting import measure_rest
from benches.agent.sensing import measure_sensors
from benches.agent.starting import measure_start

Measurement = Callable[[Path], Awaitable[Section | tuple[Section, ...]]]

MEASUREMENTS: Mapping[str, Measurement] = {
    "allocate": measure_allocate,
    "matching": measure_matching,
    "start": measure_start,
    "restart": measure_restarts,
    "rest": measure_rest,
    "list": measure_long_list,
    "sensors": measure_sensors,
}

PLACE = next(folder for folder in ("/dev/shm", "/tmp") if Path(folder).is_dir())  # noqa: S108 - the folder in it is ours
"""In memory where that can be, so that the disk is not measured; short, for a socket's path has 107 bytes."""

_COLOURS = {"met": "green", "missed": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@click.argument("only", nargs=-1, type=click.Choice(list(MEASUREMENTS)))
def main(only: tuple[str, ...], *, as_json: bool) -> None:
    """Measure the agent beside a bare gRPC plugin, all of it or ONLY some; takes about six minutes."""
    compile_ahead()
    machine = _machine()
    chosen = [MEASUREMENTS[name] for name in only or MEASUREMENTS]
    status = Output(sys.stderr)
    sections: list[Section] = []
    for number, measure in enumerate(chosen, 1):
        with status.progress(f"measuring, {number} of {len(chosen)}"):
            sections += asyncio.run(_measure(measure))
    if as_json:
        click.echo(json.dumps({"machine": machine, "sections": _plain(sections)}, indent=2))
    else:
        _show(sections, machine)


async def _measure(measure: Measurement) -> tuple[Section, ...]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=PLACE) as folder:
        measured = await measure(Path(folder))
        return measured if isinstance(measured, tuple) else (measured,)


def _plain(sections: list[Section]) -> list[dict[str, object]]:
    return [
        {
            "title": section.title,
            "figures": [{**asdict(figure), "verdict": figure.verdict} for figure in section.figures],
        }
        for section in sections
    ]


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    kind = f"{names[0]}, {len(names)} cores" if names else platform.machine()
    system = f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    return f"{kind}, {system}, {os.getloadavg()[0]:.1f} other processes running"


def _show(sections: list[Section], machine: str) -> None:
    output = Output()
    output.line()
    output.line(styled("What the agent costs", "bold"), f", beside a bare gRPC plugin, on {machine}")
    for section in sections:
        output.line()
        output.line(styled(section.title, "bold"))
        rows = [
            (
                figure.name,
                _written(figure.value, figure.unit),
                "" if figure.bare is None else _written(figure.bare, figure.unit),
                "" if figure.aim is None else f"≤ {figure.aim:g} {figure.unit}",
                _remark(figure),
            )
            for figure in section.figures
        ]
        widths = {"FIGURE": 32, "ACCELET": 9, "BARE": 9, "AIM": 10}
        figures = frozenset({"ACCELET", "BARE", "AIM"})
        output.table(Records(("FIGURE", "ACCELET", "BARE", "AIM", "VERDICT"), rows, widths, figures))


def _remark(figure: Figure) -> Text:
    verdict = styled(figure.verdict, _COLOURS[figure.verdict]) if figure.verdict else styled("")
    return verdict + styled(f"  {figure.note}" if figure.note else "", "dim")


def _written(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f} {unit}"


if __name__ == "__main__":
    main()
