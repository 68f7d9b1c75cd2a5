"""How a process of ours ends: every error as one sentence, and with one exit code."""

from collections.abc import Coroutine
from typing import Any, NoReturn

from accelet.cli.extras import explain_missing, missing_package
from accelet.control.errors import ControlError
from accelet.kube.errors import KubeError
from accelet.runtime.logs import Log
from accelet.runtime.probes import AddressError
from accelet.runtime.run import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_SETTINGS,
    FatalError,
    exit_now,
    run_until_signal,
)
from accelet.runtime.settings import SettingsError

_log = Log(__name__)


def run_process(main: Coroutine[Any, Any, None]) -> NoReturn:
    """Runs `main` until it ends, fails or is told to end by a signal, and ends the process.

    It ends with 0, with 2 where the user has said something wrong, and with 1 for anything else. What a
    daemon says goes where its other log lines go, in their form.
    """
    code = EXIT_OK
    try:
        code = run_until_signal(main)
    except SettingsError as error:
        for problem in error.problems:
            _log.error("settings are wrong", problem=str(problem))
        code = EXIT_SETTINGS
    except AddressError as error:
        _log.error("settings are wrong", problem=f"--http: {error}")
        code = EXIT_SETTINGS
    except (FatalError, KubeError, ControlError) as error:
        _log.error("cannot go on", reason=str(error))
        code = EXIT_FAILED
    except ModuleNotFoundError as error:
        code = _end_without(error)
    except Exception:  # a fault of ours: its traceback belongs into the log's one line, not before a user
        _log.exception("fault; cannot go on")
        code = EXIT_FAILED
    _log.info("ended", exit_code=code)
    exit_now(code)


def _end_without(error: ModuleNotFoundError) -> int:
    """Says which extra is missing, if it is one; otherwise it is a fault of ours."""
    if (package := missing_package(error)) is not None:
        _log.error("cannot go on", reason=f"what is configured {explain_missing(package)}")
        return EXIT_SETTINGS
    _log.exception("fault; cannot go on")
    return EXIT_FAILED
