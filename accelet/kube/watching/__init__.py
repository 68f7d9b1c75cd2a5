"""Live copies of the API server's objects."""
