"""The kubelet's gRPC APIs and files, without any decision.

It may import `accelet.runtime` alone of this project.

api/            Generated from proto/: messages and services.
checkpoint      The kubelet's device checkpoint: which container holds which devices, as written on the node's
                disk.
errors =        What can go wrong between us and the kubelet.
paths           Where the kubelet has its sockets and files.
podresources    The kubelet's podresources service: which containers it shows, and the devices they hold.
resourcename =  Which resource names a kubelet takes.
"""
