"""Commands below commands: `accelet slices forget`, `accelet demo provisioner`."""
