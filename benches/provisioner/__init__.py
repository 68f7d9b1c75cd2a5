"""What the provisioner costs."""
