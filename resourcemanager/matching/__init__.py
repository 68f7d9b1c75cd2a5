"""Whose call is this? Evidence in, a proof out, or what to ask next."""
