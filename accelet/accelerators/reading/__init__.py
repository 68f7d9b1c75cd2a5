"""How the hardware of a host is read, though it may not answer."""
