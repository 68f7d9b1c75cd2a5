"""Decides who gets which devices; no I/O, no clock, no await.

It may import the rows below, but nothing that waits, reads or tells the time. What inside may import what
stands in pyproject.toml.

giving/       Which devices a container is given.
holdings/     Who holds what, from the kubelet's records and our own answers.
matching/     Whose call is this? Evidence in, a proof out, or what to ask next.
allocation    One request of the kubelet against what is there: an allocation, or a refusal in a sentence.
explanation   What one container has of a resource, why, and whether everybody who speaks of it agrees.
listing       What the kubelet is told about one resource: the scan, what containers hold, and hysteresis in
              one list.
manager       One resource's present state behind plain methods.
surroundings  What a call is answered against, beside the call itself.
target        What an assignment means among the devices of this node.
"""
