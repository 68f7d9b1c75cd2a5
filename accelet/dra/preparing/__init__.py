"""What an allocated claim means on this node, and how its containers come by it."""
