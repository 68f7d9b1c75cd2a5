"""Google TPUs: chips found on the PCI bus, given as whole hosts or as boxes of neighbouring chips."""
