"""The task controller's settings file."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from accelet.gputask.deciding.view import TaskTimes
from accelet.gputask.objects.names import GANG_GATE
from accelet.runtime.settings import read_settings_file


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. `gate_prefix` is that of the scheduler; its pods are those with a gate of it.

    With `serve_original` GPUTasks of falldio.com/v1 are carried out too. `cluster_domain` is that of the
    cluster's Services, found in the controller's /etc/resolv.conf unless it is given. Times are in seconds,
    those of `accelet.gputask.deciding.view.TaskTimes`.
    """

    version: Literal["v1"]
    gate_prefix: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[a-z0-9.-]{1,253}/[a-z0-9-]{1,40}$",
            description="the begin of a gate's name, as gke.io/topology-aware-auto-",
        ),
    ] = GANG_GATE
    serve_original: bool = False
    cluster_domain: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                max_length=127,
                description="the domain of the cluster's Services, as cluster.local",
            ),
        ]
        | None
    ) = None
    first_pause_s: Annotated[float, msgspec.Meta(ge=0.1, le=3600)] = 10.0
    longest_pause_s: Annotated[float, msgspec.Meta(ge=0.1, le=86400)] = 300.0
    long_run_s: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 600.0
    in_place_s: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 60.0

    @property
    def times(self) -> TaskTimes:
        return TaskTimes(
            self.first_pause_s, self.longest_pause_s, self.long_run_s, in_place_s=self.in_place_s
        )


DEFAULT_TASK_SETTINGS = TaskSettings(version="v1")


def read_task_settings(file: Path) -> TaskSettings:
    """The settings in a file.

    Raises:
        SettingsError: they are wrong, or the file cannot be read; has every mistake.
    """
    return read_settings_file(file, TaskSettings)
