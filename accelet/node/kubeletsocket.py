"""Whether a kubelet runs, by the socket at which device plugins register."""

import os
import socket
from pathlib import Path

_CONNECT_S = 0.5


def explain_no_kubelet(path: Path) -> str | None:
    """Why no kubelet runs, by its kubelet.sock; None where one does, or nobody can tell.

    A kubelet that ended leaves its socket behind, at which nobody listens. Blocks for half a second at most.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_S)
        try:
            probe.connect(os.fspath(path))
        except FileNotFoundError:
            return f"the kubelet is not running: there is no {path}"
        except ConnectionRefusedError:
            return f"the kubelet is not running: nobody listens at {path}"
        except OSError:
            return None
    return None
