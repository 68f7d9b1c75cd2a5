"""What the kubelet speaks: its sockets and the plugins at their other ends."""
