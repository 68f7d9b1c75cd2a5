"""What any service on a node is made of."""
