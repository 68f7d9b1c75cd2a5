"""`python -m accelet.kinds FOLDER` writes the CustomResourceDefinitions; `make crds` calls it."""

import sys
from pathlib import Path
from typing import Final

import yaml

from accelet.kinds.definition import Definition
from accelet.kinds.gputask import GPU_TASK_DEFINITION
from accelet.kinds.slicerequest import SLICE_REQUEST_DEFINITION

DEFINITIONS: Final = (SLICE_REQUEST_DEFINITION, GPU_TASK_DEFINITION)


def render_file(definition: Definition) -> str:
    """The text of a definition's file."""
    head = f"# Made of accelet/kinds/{definition.singular}.py by `make crds`.\n"
    return head + yaml.safe_dump(definition.render(), sort_keys=False, width=110)


if __name__ == "__main__":
    for one in DEFINITIONS:
        Path(sys.argv[1], f"{one.resource.plural}.yaml").write_text(render_file(one))
