"""Judges the kubelet's side of a node: its folders, its sockets, its records."""

from collections.abc import Iterator, Sequence

from accelet.doctor.findings import Finding, Level, Verdict, judge, quoted, several
from accelet.doctor.node.seen import FolderSeen, NodeSeen, RecordsSeen, SocketSeen

_FOLDER_CURES = {
    "absent": "Start the kubelet. If its --root-dir is another, give that as --kubelet-root-dir, and mount "
    "these folders of it into the agent's pod: the chart does both by agent.kubeletRootDir.",
    "closed": "Run this as root, or by kubectl exec in the agent's pod.",
    "dead": "Delete the agent's pod: its successor is given the folder that is there now.",
}
_NO_DEVICE_PLUGINS = (
    "Start the kubelet, and mount the folder into the agent's pod. It does not move with the kubelet's "
    "--root-dir: --kubelet-dir is /var/lib/kubelet on nodes with another one too."
)
_FOLDER_REASONS = {
    "absent": "there is no such folder",
    "closed": "this process may not look into it",
    "dead": "it was removed on the host, and what is mounted here is dead",
}
_SOCKET_CURES = {
    "absent": "Start the kubelet: `systemctl status kubelet` on the node says why it does not run.",
    "silent": "Start the kubelet again: the socket is that of one that has ended.",
    "no socket": "Remove the file, and start the kubelet again, which makes its socket there.",
    "closed": "Run this as root. With SELinux in enforcing mode the agent's pod needs the type "
    "container_device_plugin_t (seLinuxOptions in daemonset.yaml).",
}
_SOCKET_REASONS = {
    "absent": "there is no such socket",
    "silent": "nobody answers at this socket",
    "no socket": "this is a file, and no socket",
    "closed": "this process may not connect to it",
}


def judge_kubelet(seen: NodeSeen) -> Sequence[Verdict]:
    return (
        judge(
            "kubelet-folders",
            f"{several(len(seen.folders), 'folder')} of the kubelet are there",
            _folders(seen.folders),
        ),
        judge("kubelet-socket", _socket_fine(seen.kubelet_socket), _kubelet_socket(seen)),
        judge("checkpoint", _checkpoint_fine(seen.checkpoint), _checkpoint(seen)),
        judge("podresources", _records_fine(seen.pod_resources), _pod_resources(seen)),
        judge("plugin-sockets", _sockets_fine(seen.other_sockets), _other_sockets(seen.other_sockets)),
    )


def _folders(folders: Sequence[FolderSeen]) -> Iterator[Finding]:
    for folder in folders:
        if folder.state != "there":
            level: Level = "unseen" if folder.state == "closed" else "wrong"
            cure = _FOLDER_CURES[folder.state]
            if folder.state == "absent" and not folder.moves:
                cure = _NO_DEVICE_PLUGINS
            yield Finding(level, folder.path, _FOLDER_REASONS[folder.state], cure)


def _socket_fine(socket: SocketSeen) -> str:
    return f"the kubelet answers at {socket.path}" if socket.state == "answers" else ""


def _kubelet_socket(seen: NodeSeen) -> Iterator[Finding]:
    socket = seen.kubelet_socket
    if socket.state != "answers" and _is_there(seen, socket.path):
        level: Level = "unseen" if socket.state == "closed" else "wrong"
        yield Finding(level, socket.path, _SOCKET_REASONS[socket.state], _SOCKET_CURES[socket.state])


def _is_there(seen: NodeSeen, path: str) -> bool:
    """Whether the folder of a file is there: that it is not is one finding, and not several."""
    folder = path.rpartition("/")[0]
    return all(one.state == "there" for one in seen.folders if one.path == folder)


def _checkpoint_fine(records: RecordsSeen) -> str:
    if records.problem:
        return ""
    return f"the kubelet's checkpoint can be read; it knows {several(len(records.devices), 'resource')}"


def _checkpoint(seen: NodeSeen) -> Iterator[Finding]:
    folder = f"{seen.kubelet_socket.path.rpartition('/')[0]}/"
    if seen.checkpoint.problem and _is_there(seen, seen.kubelet_socket.path):
        yield Finding(
            "wrong",
            f"{folder}kubelet_internal_checkpoint",
            "the kubelet's record of who holds which devices cannot be read",
            "Run this as root. A damaged file is replaced when the kubelet next gives out a device; one "
            "that starts before that starts without it, so drain the node before you start it again.",
            quoted(seen.checkpoint.problem),
        )


def _records_fine(records: RecordsSeen) -> str:
    if records.problem:
        return ""
    return f"podresources answers; the kubelet has devices of {several(len(records.devices), 'resource')}"


def _pod_resources(seen: NodeSeen) -> Iterator[Finding]:
    if seen.pod_resources.problem and seen.kubelet_socket.state == "answers":
        yield Finding(
            "wrong",
            "podresources",
            "the kubelet cannot be asked who holds which devices",
            "See that the kubelet's pod-resources folder is mounted (daemonset.yaml), and give "
            "--kubelet-root-dir where the kubelet's --root-dir is another. Without it lists are not "
            "audited, and calls of resources with assignments are refused.",
            quoted(seen.pod_resources.problem),
        )


def _sockets_fine(sockets: Sequence[SocketSeen]) -> str:
    return f"{several(len(sockets), 'socket')} of device plugins, each answered" if sockets else ""


def _other_sockets(sockets: Sequence[SocketSeen]) -> Iterator[Finding]:
    for socket in sockets:
        if socket.state == "silent":
            yield Finding(
                "note",
                quoted(socket.path),
                "nobody answers at this plugin's socket: its process has ended without removing it",
                "Nothing need be done: the next start of the kubelet removes it.",
            )
