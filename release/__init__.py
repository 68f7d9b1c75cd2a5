"""Makes what is given out of this project: the image's files from locks, without Docker."""
