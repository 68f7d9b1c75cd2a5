"""The topology-aware gang scheduler."""
