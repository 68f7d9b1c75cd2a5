"""Forks agents from a process that has imported everything: a real process to kill, without the imports."""

import faulthandler
import logging
import os
import signal
import sys
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.kubelet.paths import KubeletPaths
from accelet.runtime.logs import configure_logs
from accelet.runtime.run import EXIT_FAILED, FatalError, exit_now, run_until_signal
from tests.integration.chaos.suspensions import kill_at

# gRPC starts its threads with the first channel, so what is only imported may be forked.


def main() -> None:
    """Answers each line `FOLDER N` with the id of an agent process, killed at suspension N if it is not 0."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        folder, at = line.rsplit(" ", 1)
        pid = os.fork()
        if pid == 0:
            _become_agent(Path(folder), int(at))
        print(pid, flush=True)  # noqa: T201 - the answer


def _become_agent(folder: Path, at: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (0, 1):  # the answers' pipe is the zygote's alone
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    with (folder / "agent.log").open("a") as log:
        faulthandler.enable(log)  # where did it crash?
        faulthandler.register(signal.SIGUSR1, log)  # where does it hang?
        configure_logs("info", log)
        options = AgentOptions(folder, KubeletPaths(folder), "node", None)
        agent = Agent(options, ConfigFile(folder / "config.yaml"))
        try:
            code = run_until_signal(kill_at(at, agent.run()) if at else agent.run())
        except FatalError:
            code = EXIT_FAILED
        except BaseException:  # of which whoever forked us is told by the log alone
            logging.exception("the agent failed")
            code = EXIT_FAILED
        log.flush()
        exit_now(code)


if __name__ == "__main__":
    main()
