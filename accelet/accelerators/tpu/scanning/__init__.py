"""What a node's files say of its TPUs."""
