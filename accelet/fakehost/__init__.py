"""Hosts with accelerators as trees of files, `sys/` and `dev/` below a folder, as kernels show them.

`accelet devices --host-root FOLDER`, `accelet demo --node FOLDER` and tests of back-ends read them.
"""
