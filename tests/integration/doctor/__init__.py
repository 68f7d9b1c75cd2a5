"""`accelet doctor` against things that really run."""
