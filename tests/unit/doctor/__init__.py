"""What `accelet doctor` makes of what was seen."""
