"""Which cards are published, and where: on the Node, in a feature file."""
