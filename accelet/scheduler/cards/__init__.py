"""Cards and tiles within one node."""
