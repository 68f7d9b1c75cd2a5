"""A cluster as people look at it, for commands and for the page of `accelet ui`: values and no I/O."""
