"""What JobSets, Jobs and LeaderWorkerSets ask for, read from the owners themselves."""
