"""Intel GPUs: what sysfs says of them, how they are offered, which tiles a container may see."""
