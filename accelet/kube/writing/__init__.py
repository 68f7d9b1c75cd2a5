"""What is written of objects: conditions, owners, finalizers."""
