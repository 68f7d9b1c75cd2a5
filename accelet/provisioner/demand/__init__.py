"""What JobSets and Jobs ask for, read from the owners themselves."""
