"""The page, as far as it needs no sockets."""
