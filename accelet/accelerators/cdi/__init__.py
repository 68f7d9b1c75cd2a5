"""What the host's Container Device Interface specifications offer."""
