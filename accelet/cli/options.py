"""Options that several commands have in common."""

import functools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from accelet.dra.running.places import DEFAULT_CDI_FOLDER
from accelet.kube.errors import ConfigurationError
from accelet.kube.kubeconfig import Kubeconfig, find_kubeconfig, read_kubeconfig
from accelet.kubelet.paths import DEFAULT_KUBELET_DIR, KubeletPaths
from accelet.runtime.run import EXIT_FAILED

DEFAULT_CONFIG_PATH = Path("/etc/accelet/config.yaml")

IN_THE_POD = Path("/host")
"""Where the agent's pod sees its host, by daemonset.yaml."""

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Which namespace a pod with a service account is in."""

NO_KUBECONFIG = "Outside of a pod, give --kubeconfig FILE, set KUBECONFIG, or write ~/.kube/config."

F = TypeVar("F", bound=Callable[..., Any])


cdi_option = click.option(
    "--cdi-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="ACCELET_CDI_DIR",
    default=DEFAULT_CDI_FOLDER,
    show_default=True,
    help="Where the container runtime reads CDI files, for `serve: dra`.",
)


def controller_options(command: F) -> F:
    """What every controller is told: the API server, its settings, its HTTP port, its Lease, its log."""
    for option in reversed(
        (
            click.option(
                "--kubeconfig",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="How to reach the API server; without it, as the pod's own service account.",
            ),
            click.option(
                "--config",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Settings, a YAML file.",
            ),
            click.option("--http", default="", help="HOST:PORT or :PORT for /healthz, /readyz and /metrics."),
            click.option(
                "--namespace",
                envvar="POD_NAMESPACE",
                default="kube-system",
                show_default=True,
                help="Where the Lease is by which one replica leads.",
            ),
            click.option(
                "--log-level",
                type=click.Choice(["debug", "info", "warning", "error"]),
                envvar="ACCELET_LOG_LEVEL",
                default="info",
                show_default=True,
            ),
        )
    ):
        command = option(command)
    return command


def node_options(command: F) -> F:
    """Where the node's hardware, its kubelet and the configuration are."""
    for option in reversed(
        (
            click.option(
                "--config",
                type=click.Path(dir_okay=False, path_type=Path),
                envvar="ACCELET_CONFIG",
                help=f"Configuration file.  [default: {DEFAULT_CONFIG_PATH} if present, else built in]",
            ),
            click.option(
                "--host-root",
                type=click.Path(path_type=Path),
                envvar="ACCELET_HOST_ROOT",
                default=Path("/"),
                show_default=True,
                help="Where the host's sys/ and dev/ are seen.",
            ),
            click.option(
                "--kubelet-dir",
                type=click.Path(path_type=Path),
                envvar="ACCELET_KUBELET_DIR",
                default=DEFAULT_KUBELET_DIR,
                show_default=True,
                help="Where the kubelet's device-plugins/ is, which does not move with its --root-dir.",
            ),
            click.option(
                "--kubelet-root-dir",
                type=click.Path(path_type=Path),
                envvar="ACCELET_KUBELET_ROOT_DIR",
                help="The kubelet's own --root-dir: its plugins/, plugins_registry/ and pod-resources/.  "
                "[default: KUBELET_DIR]",
            ),
            click.option(
                "--pod-resources-dir",
                type=click.Path(path_type=Path),
                envvar="ACCELET_POD_RESOURCES_DIR",
                help="Where the kubelet's podresources socket is.  [default: KUBELET_ROOT_DIR/pod-resources]",
            ),
            click.option(
                "--node-name",
                envvar=["ACCELET_NODE_NAME", "NODE_NAME"],
                default=socket.gethostname,
                help="This node's name.  [default: the host name]",
            ),
            click.option(
                "--node-ip",
                envvar=["ACCELET_NODE_IP", "NODE_IP"],
                help="This node's IP address, where containers with TPUs find the host's control service.",
            ),
            click.option(
                "--http",
                envvar="ACCELET_HTTP",
                default=":9400",
                show_default=True,
                metavar="ADDR",
                help="Address of /healthz, /readyz and /metrics.",
            ),
        )
    ):
        command = option(command)
    return command


def kubeconfig_option(command: F) -> F:
    """How to reach the API server."""
    return click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="ACCELET_KUBECONFIG",
        help="How to reach the API server.  [default: the pod's service account]",
    )(command)


def own_kubeconfig_option(command: F) -> F:
    """How a person's command reaches the API server: as kubectl does. It gets a `Kubeconfig`, or None."""

    @functools.wraps(command)
    def with_choice(*args: Any, kubeconfig: Path | None, context: str | None, **others: Any) -> Any:
        chosen = find_kubeconfig(kubeconfig, context, os.environ, Path.home())
        return command(*args, kubeconfig=chosen, **others)

    for option in (
        click.option("--context", help="Which context of the kubeconfig.  [default: its current one]"),
        click.option(
            "--kubeconfig",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="ACCELET_KUBECONFIG",
            help="How to reach the API server.  [default: the files of KUBECONFIG, else ~/.kube/config, "
            "else the pod's service account]",
        ),
    ):
        with_choice = option(with_choice)
    return cast(F, with_choice)


def resolve_namespace(given: str | None, kubeconfig: Kubeconfig | None) -> str:
    """The namespace that is given, else that of the context or of this pod, else `default`, as for kubectl.

    Ends the command with a sentence where the kubeconfig cannot be read.
    """
    if given is not None:
        return given
    if kubeconfig is not None:
        try:
            return read_kubeconfig(kubeconfig).namespace or "default"
        except ConfigurationError as error:
            click.echo(str(error), err=True)
            raise SystemExit(EXIT_FAILED) from None
    try:
        return _OWN_NAMESPACE.read_text().strip() or "default"
    except OSError:
        return "default"


def refuse_no_host(root: Path) -> None:
    """Ends the command where `root` cannot be a host's root.

    Raises:
        click.BadParameter: there is no such folder, or no sys/ and dev/ in it.
    """
    if not root.is_dir():
        what = "is no folder" if root.exists() else "is not there"
        raise click.BadParameter(f"{root} {what}", param_hint="--host-root")
    missing = [name for name in ("sys", "dev") if not (root / name).is_dir()]
    if missing:
        raise click.BadParameter(
            f"no {' and no '.join(missing)} in {root}: give the folder under which the host's are seen",
            param_hint="--host-root",
        )


def choose_config(given: Path | None) -> Path | None:
    """The configuration file to read; None for the built-in configuration."""
    if given is not None:
        return given
    return DEFAULT_CONFIG_PATH if DEFAULT_CONFIG_PATH.exists() else None


def kubelet_paths(
    kubelet_dir: Path, kubelet_root_dir: Path | None, pod_resources_dir: Path | None
) -> KubeletPaths:
    return KubeletPaths(kubelet_dir, pod_resources_dir, kubelet_root_dir)
