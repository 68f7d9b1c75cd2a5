"""Replays recorded machines through the scanners: `python -m tests.recorded FOLDER`.

archives  Unpacks an archive of recorded files; whatever would lead out of the folder is left out.
machines  Finds the machines among unpacked files, and puts a host root together from each.
replay    What the back-ends make of a host root, as lines to read and to compare.
"""
