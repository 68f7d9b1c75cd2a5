"""Which accelerators a node has, and what a container needs to use them."""
