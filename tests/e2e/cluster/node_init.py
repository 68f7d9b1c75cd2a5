"""Process 1 of a node's namespaces: mounts what hides the machine's own folders, says so, and reaps orphans.

It runs as a script, alone, before anything of the project can be imported.
"""

import os
import signal
import subprocess
import sys


def main() -> None:
    """Each argument is a mount command's arguments, separated by commas."""
    # Children that end must wake sigwait, not be handled elsewhere.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for mount in sys.argv[1:]:
        subprocess.run(["mount", *mount.split(",")], check=True)
    os.write(sys.stdout.fileno(), b"mounted\n")
    while True:
        signal.sigwait({signal.SIGCHLD})
        reap()


def reap() -> None:
    """Takes the exit codes of all children that have ended: container shims are adopted by process 1."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
