"""`python -m accelet.kinds FOLDER` writes the CustomResourceDefinitions; `make crds` calls it."""

import sys
from pathlib import Path
from typing import Final

import yaml

from accelet.kinds.definition import Definition
from accelet.kinds.gputask import GPU_TASK_DEFINITION
from accelet.kinds.move import MOVE_DEFINITION
from accelet.kinds.originaltask import ORIGINAL_TASK_DEFINITION
from accelet.kinds.slicerequest import SLICE_REQUEST_DEFINITION

DEFINITIONS: Final = (SLICE_REQUEST_DEFINITION, GPU_TASK_DEFINITION, MOVE_DEFINITION)


ORIGINAL_FILE: Final = "crds/original/gputasks.yaml"
"""Below deploy: it is installed by those alone who want it."""


def render_file(definition: Definition) -> str:
    """The text of a definition's file."""
    head = f"# Made of {definition.spec.__module__.replace('.', '/')}.py by `make crds`.\n"
    return head + yaml.safe_dump(definition.render(), sort_keys=False, width=110)


if __name__ == "__main__":
    for one in DEFINITIONS:
        Path(sys.argv[1], f"{one.resource.plural}.yaml").write_text(render_file(one))
    Path(sys.argv[1]).parent.joinpath(ORIGINAL_FILE).write_text(render_file(ORIGINAL_TASK_DEFINITION))
