"""The driver at work: its record on disk, its sockets, its slices at the API server."""
