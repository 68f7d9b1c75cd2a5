"""What of a node's hardware is published, and how the ResourceSlices come to say so."""
