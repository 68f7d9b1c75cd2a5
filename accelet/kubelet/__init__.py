"""The kubelet's gRPC APIs and files, without any decision."""
