"""The node agent: its process and its configuration."""
