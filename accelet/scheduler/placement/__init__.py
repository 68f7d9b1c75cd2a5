"""Which nodes a gang gets."""
