"""What the holders of claims are told of their devices: Events, and conditions in the status of the claim."""
