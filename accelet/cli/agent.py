"""`accelet agent`: the node agent."""

import os
from pathlib import Path

# The C core writes connection notices to stderr, which would stand between the JSON lines.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import click

import accelet
from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.cli.options import choose_config, kubeconfig_option, kubelet_paths, node_options
from accelet.runtime.logs import Level, Log, configure_logs
from accelet.runtime.probes import AddressError, parse_address
from accelet.runtime.run import EXIT_FAILED, EXIT_SETTINGS, FatalError, exit_now, run_until_signal
from accelet.runtime.settings import SettingsError

_log = Log(__name__)


@click.command()
@node_options
@kubeconfig_option
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    envvar="ACCELET_LOG_LEVEL",
    default="info",
    show_default=True,
)
def command(
    config: Path | None,
    host_root: Path,
    kubelet_dir: Path,
    pod_resources_dir: Path | None,
    node_name: str,
    http: str,
    kubeconfig: Path | None,
    log_level: Level,
) -> None:
    """Serve this node's devices to its kubelet, and stay registered through everything."""
    configure_logs(log_level)
    paths = kubelet_paths(kubelet_dir, pod_resources_dir)
    file = choose_config(config)
    _log.info(
        "starting",
        version=accelet.__version__,
        config=str(file) if file else "built in",
        host_root=str(host_root),
        device_plugins=str(paths.device_plugins),
        pod_resources=str(paths.pod_resources_socket),
        node=node_name,
        http=http,
        kubeconfig=str(kubeconfig) if kubeconfig else "in cluster",
    )
    try:
        options = AgentOptions(host_root, paths, node_name, parse_address(http) if http else None, kubeconfig)
        code = run_until_signal(_run(options, file))
    except SettingsError as error:
        click.echo(str(error), err=True)
        code = EXIT_SETTINGS
    except AddressError as error:
        click.echo(f"--http: {error}", err=True)
        code = EXIT_SETTINGS
    except FatalError as error:
        _log.error("cannot go on", reason=str(error))
        code = EXIT_FAILED
    _log.info("ended", exit_code=code)
    exit_now(code)


async def _run(options: AgentOptions, config: Path | None) -> None:
    await Agent(options, ConfigFile(config)).run()
