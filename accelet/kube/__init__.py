"""The API server, for everybody: objects, requests, watches, work queue, lease, events.

Rule: no hardware, no policy. `connection` alone imports the kubernetes package, `client` alone that.
"""
