"""What the node agent costs, measured beside a bare gRPC plugin in one run."""
