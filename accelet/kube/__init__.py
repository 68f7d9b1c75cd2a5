"""The API server, for everybody: objects, requests, watches, work queue, lease, events.

Rule: no hardware, no policy. `client` and `connection` alone import the kubernetes package.
"""
