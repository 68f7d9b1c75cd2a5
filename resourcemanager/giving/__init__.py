"""Which devices a container is given."""
