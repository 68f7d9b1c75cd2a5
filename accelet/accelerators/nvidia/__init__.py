"""NVIDIA's GPUs, by files alone: of the PCI bus, of NVIDIA's driver and of CDI specifications.

Nothing here calls NVIDIA's library (NVML). What no file says is not known: memory, MIG profiles, NVLink.
"""
