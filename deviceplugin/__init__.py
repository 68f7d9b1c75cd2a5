"""The node agent: speaks the kubelet's device plugin API."""
