"""A reader of the documents on a fresh machine: types what they say, and compares what they show."""
