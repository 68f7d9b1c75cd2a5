"""The product's folders stay small, and a class name means one thing."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
PRODUCT = ("accelet", "deviceplugin", "resourcemanager")
MOST_MODULES = 16

ROLES = {"Controller", "Reconciler", "WatchApi", "Watching"}
"""What several processes have one of each: the scheduler and the provisioner, deviceplugin and dra."""

ONE_CONCEPT = {
    "CheckpointEntry": "resourcemanager declares what it reads of the kubelet's, as a protocol",
    "Refusal": "why something is not done, of devices, gangs and pools",
}


def modules() -> list[Path]:
    found = [path for top in PRODUCT for path in (ROOT / top).rglob("*.py")]
    return [path for path in found if not path.stem.endswith(("_pb2", "_pb2_grpc"))]


def test_no_folder_has_more_modules_than_one_can_oversee() -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in modules() if path.stem != "__init__")
    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_no_other_class_name_has_two_meanings() -> None:
    """Those of a module alone begin with an underscore; the fake kubelet's are an interface of their own."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        if "fakekubelet" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    several = {name: where for name, where in places.items() if len(where) > 1 and name not in ROLES}
    assert {name: where for name, where in several.items() if name not in ONE_CONCEPT} == {}
    assert several.keys() >= ONE_CONCEPT.keys(), "whatever is told apart by now needs no excuse"
