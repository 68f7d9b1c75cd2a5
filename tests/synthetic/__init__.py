"""Hardware trees made from descriptions: `sys/` and `dev/` below a folder, as a kernel would show them."""
