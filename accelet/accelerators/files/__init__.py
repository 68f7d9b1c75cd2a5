"""Plain devices: whatever is a path, a glob or a USB device, with nothing known of its use.

backend  The `files` back-end: devices that are files on the host.
globs    Shell patterns over the host's files, as Go's filepath.Glob reads them.
groups   Groups of files that make devices; a group of squat/generic-device-plugin is read as it stands.
ids      Stable names for devices that are files.
units    The devices that a group of files makes, and what it asked for in vain.
usb      USB devices by what /sys/bus/usb/devices says of them.
"""
