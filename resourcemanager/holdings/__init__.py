"""Who holds what, from the kubelet's records and our own answers."""
