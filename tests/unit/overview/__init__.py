"""The picture of a cluster, as values."""
