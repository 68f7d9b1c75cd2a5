"""One node: its kubelet's folders, sockets and records, its agent, its configuration."""
