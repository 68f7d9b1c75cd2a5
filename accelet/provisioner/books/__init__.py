"""Requests summed up and looked up without going over all of them: kept up with each change of one."""
