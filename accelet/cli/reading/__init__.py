"""What offline commands read."""
