"""What commands print with --json, as types.

demoforms    What the demos of a node, of claims and of slices print with --json.
deviceforms  What `accelet devices` prints with --json.
explained    What `accelet explain` prints with --json.
jsonforms    The JSON schema of what each command prints with --json.
plainforms   The forms of what commands print as plain mappings; tests hold the commands to them.
taskdemo     What `accelet demo tasks` prints with --json.
"""
