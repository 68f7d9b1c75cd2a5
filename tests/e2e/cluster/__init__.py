"""A real Kubernetes cluster on this machine, for tests, which leaves nothing behind."""
