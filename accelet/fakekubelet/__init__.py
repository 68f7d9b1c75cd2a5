"""A faithful fake kubelet, for anyone who writes a device plugin."""
