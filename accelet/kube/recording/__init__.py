"""Kubernetes Events.

eventlog =  Which Events are to be sent, and when: plain and synchronous, told the time.
events      Kubernetes Events about pods and nodes, for those who read `kubectl describe`.
"""
