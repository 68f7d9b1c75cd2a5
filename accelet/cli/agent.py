"""`accelet agent`: the node agent."""

import os
from dataclasses import replace
from pathlib import Path

# The C core writes connection notices to stderr, which would stand between the JSON lines.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import click

import accelet
from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.cli.ending import run_process
from accelet.cli.options import cdi_option, choose_config, kubeconfig_option, kubelet_paths, node_options
from accelet.runtime.logs import Level, Log, configure_logs
from accelet.runtime.probes import parse_address

_log = Log(__name__)


@click.command()
@node_options
@kubeconfig_option
@cdi_option
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
    kubelet_root_dir: Path | None,
    pod_resources_dir: Path | None,
    node_name: str,
    node_ip: str | None,
    http: str,
    kubeconfig: Path | None,
    cdi_dir: Path,
    log_level: Level,
) -> None:
    """Serve this node's devices to its kubelet, and stay registered through everything."""
    configure_logs(log_level)
    paths = kubelet_paths(kubelet_dir, kubelet_root_dir, pod_resources_dir)
    file = choose_config(config)
    _log.info(
        "starting",
        version=accelet.__version__,
        config=str(file) if file else "built in",
        host_root=str(host_root),
        device_plugins=str(paths.device_plugins),
        pod_resources=str(paths.pod_resources_socket),
        node=node_name,
        node_ip=node_ip,
        http=http,
        kubeconfig=str(kubeconfig) if kubeconfig else "in cluster",
    )
    options = AgentOptions(host_root, paths, node_name, None, kubeconfig, node_ip, cdi_dir)
    run_process(_run(options, http, file))


async def _run(options: AgentOptions, http: str, config: Path | None) -> None:
    address = parse_address(http) if http else None
    await Agent(replace(options, http=address), ConfigFile(config)).run()
