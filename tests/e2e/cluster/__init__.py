"""A real Kubernetes cluster on this machine, for tests: control plane, kubelet nodes, images, and nothing left behind."""
