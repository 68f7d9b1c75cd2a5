"""accelet: the accelerator stack for Kubernetes."""

__version__ = "0.1.0"
