"""What commands draw for people."""
