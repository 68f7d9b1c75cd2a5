"""The API server, for everybody: objects, requests, watches, work queue, lease, events."""
