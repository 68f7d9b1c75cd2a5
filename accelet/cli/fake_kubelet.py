"""`accelet fake-kubelet`: a kubelet to test device plugins against."""

import asyncio
import dataclasses
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Read by gRPC's C core when it is loaded; its notices would land in the output.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click

from accelet.fakekubelet.behaviour import VERSIONS
from accelet.fakekubelet.kubelet import FakeKubelet
from accelet.fakekubelet.scenario import (
    FakeTarget,
    Scenario,
    UnsupportedStepError,
    play,
    read_scenario,
    standing_problems,
)
from accelet.fakekubelet.trace import Event
from accelet.kubelet.paths import DEFAULT_KUBELET_DIR
from accelet.runtime.settings import SettingsError


@click.command("fake-kubelet")
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Stands for /var/lib/kubelet; gets device-plugins/ and pod-resources/.",
)
@click.option(
    "--scenario",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What shall happen; without it the kubelet just runs until Ctrl-C.",
)
@click.option("--kubelet-version", type=click.Choice(list(VERSIONS)), help="Instead of the scenario's.")
@click.option("--seed", type=int, help="Repeats the random choices of another run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each event.")
def command(
    *, folder: Path, scenario: Path | None, kubelet_version: str | None, seed: int | None, as_json: bool
) -> None:
    """Run a fake kubelet and print what happens, one event a line.

    Exit codes: 0 all went well, 1 the plugin misbehaved (it says in what), 2 the arguments or the
    scenario are wrong.
    """
    _refuse_real_kubelet(folder)
    try:
        script = read_scenario(scenario) if scenario is not None else None
    except SettingsError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {scenario}: {error}") from None
    version = kubelet_version or (script.kubelet if script else "1.36")
    if version not in VERSIONS:
        raise click.UsageError(f"kubelet: unknown version {version}; known are {', '.join(VERSIONS)}")
    if seed is None and script is not None:
        seed = script.seed
    kubelet = FakeKubelet(folder, version=version, seed=seed)
    kubelet.trace.listen(_printer(as_json=as_json))
    raise SystemExit(asyncio.run(_run(kubelet, script)))


def _refuse_real_kubelet(folder: Path) -> None:
    """A kubelet empties its folder when it starts, and so does this one.

    Raises:
        click.BadParameter: the folder is a real kubelet's, or somebody answers at a kubelet.sock in it.
    """
    if folder.resolve() == DEFAULT_KUBELET_DIR:
        raise click.BadParameter(
            f"{folder} is the real kubelet's own: give a folder of its own, an empty one", param_hint="--dir"
        )
    for path in (folder / "device-plugins" / "kubelet.sock", folder / "pod-resources" / "kubelet.sock"):
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.settimeout(1)
            probe.connect(os.fspath(path))
            raise click.BadParameter(
                f"a kubelet answers at {path}, and its sockets would be removed: give another folder",
                param_hint="--dir",
            )


def _printer(*, as_json: bool) -> Callable[[Event], None]:
    def show(event: Event) -> None:
        click.echo(json.dumps(dataclasses.asdict(event)) if as_json else str(event))

    return show


async def _run(kubelet: FakeKubelet, scenario: Scenario | None) -> int:
    ending = asyncio.Event()
    if scenario is None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ending.set)
    try:
        await kubelet.start()
    except OSError as error:
        click.echo(f"accelet fake-kubelet: {error}", err=True)
        return 2
    try:
        if scenario is None:
            await ending.wait()
            return 0
        try:
            problems = [str(each) for each in await play(scenario, FakeTarget(kubelet), kubelet.trace)]
            problems += standing_problems(kubelet.trace)
        except UnsupportedStepError as error:
            click.echo(f"accelet fake-kubelet: {error}", err=True)
            return 2
    finally:
        await kubelet.stop()
    for problem in problems:
        click.echo(f"the plugin misbehaved: {problem}", err=True)
    if problems:
        click.echo(f"seed {kubelet.seed}, kubelet {kubelet.version}", err=True)
    return 1 if problems else 0
