"""What the kubelet remembers of devices and who holds them; no sockets."""
