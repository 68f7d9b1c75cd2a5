"""Hosts with accelerators as trees of files, `sys/` and `dev/` below a folder, as kernels show them.

`accelet devices --host-root FOLDER`, `accelet demo --node FOLDER` and tests of back-ends read them.

It may import the rows below; no back-end is asked what a tree looks like.

amd      AMD's GPUs as the PCI bus, amdgpu and KFD show them.
gpus     GPUs as the i915 and xe drivers show them in sysfs, and /dev/dri as udev fills it.
nodes    Nodes worth testing against, by name.
nvidia   NVIDIA's GPUs as the kernel's PCI bus and NVIDIA's driver show them, and a CDI specification of them.
sensors  What the drivers of Intel's cards tell of them, in trees that `write_gpus` made: by driver and
         kernel.
sources  Which part of Linux has each file of the hosts that are written here, and since which version.
tpu      TPU hosts of every generation as trees of sysfs, /dev and /etc, put together from what public sources
         say
"""
