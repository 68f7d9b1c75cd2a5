"""What becomes of a gang whose pods are partly placed."""
