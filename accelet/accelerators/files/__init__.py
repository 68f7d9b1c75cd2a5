"""Plain devices: whatever is a path, a glob or a USB device, with nothing known of its use."""
