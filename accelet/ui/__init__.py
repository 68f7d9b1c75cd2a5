"""`accelet ui`: a read-only page of a cluster, on loopback, for whoever has its one-time link."""
