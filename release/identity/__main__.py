"""`python -m release.identity FOLDER` writes the policies; `make policies` calls it."""

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from release.identity.podstage import pods
from release.identity.policies import Stage
from release.identity.workloadstages import job_sets, jobs, stateful_sets

STAGES: Final = (job_sets(), jobs(), stateful_sets(), pods())


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and what occurs twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _block)


def render_file(stage: Stage) -> str:
    """The text of a stage's file."""
    head = "# Made of release/identity by `make policies`. docs/provisioner.md says what they do.\n"
    return head + yaml.dump_all(stage.render(), Dumper=_Dumper, sort_keys=False, width=110)


if __name__ == "__main__":
    for one in STAGES:
        Path(sys.argv[1], f"{one.name}.yaml").write_text(render_file(one))
