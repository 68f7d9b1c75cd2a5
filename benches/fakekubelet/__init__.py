"""How fast the fake kubelet is."""
