"""`python -m accelet.fakehost SHAPE FOLDER` writes a host: `accelet demo --node FOLDER` serves it."""

import sys
from pathlib import Path

from accelet.fakehost.amd import ALL_AMD, write_amd
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import ALL_NODES
from accelet.fakehost.nvidia import ALL_NVIDIA, write_nvidia
from accelet.fakehost.tpu import HOSTS

_TPU_CONFIG = """version: v1
resources:
  - {name: google.com/tpu, backend: tpu, mode: sub-host}
"""

_AMD_CONFIG = """version: v1
resources:
  - {name: amd.com/gpu, backend: amd-gpu}
"""

_NVIDIA_CONFIG = """version: v1
resources:
  - {name: nvidia.com/gpu, backend: nvidia-gpu}
"""


def main(arguments: list[str]) -> str | None:
    """Writes the host; the sentence that says why not."""
    shapes = [*ALL_NODES, *ALL_AMD, *ALL_NVIDIA, *HOSTS]
    if len(arguments) != 2 or arguments[0] not in shapes:
        return f"usage: python -m accelet.fakehost SHAPE FOLDER; SHAPE is one of {', '.join(shapes)}"
    shape, folder = arguments[0], Path(arguments[1])
    if folder.exists() and any(folder.iterdir()):
        return f"{folder} is not empty; name a folder that is not there yet"
    if shape in HOSTS:
        HOSTS[shape].with_files({"config.yaml": _TPU_CONFIG}).write(folder)
    elif shape in ALL_AMD:
        write_amd(folder, ALL_AMD[shape])
        (folder / "config.yaml").write_text(_AMD_CONFIG)
    elif shape in ALL_NVIDIA:
        write_nvidia(folder, ALL_NVIDIA[shape])
        (folder / "config.yaml").write_text(_NVIDIA_CONFIG)
    else:
        write_gpus(folder, ALL_NODES[shape])
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
