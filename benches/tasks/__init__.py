"""What `make bench-tasks` measures: the controller of GPU tasks beside an API server."""
