"""The product's folders stay small, each names what it has, and a class name means one thing."""

import ast
import re
import tomllib
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


GENERATED = ROOT / "accelet" / "kubelet" / "api"


def pure_modules() -> set[str]:
    """The paths of modules and packages that import-linter keeps from all I/O."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (pure,) = (one["source_modules"] for one in contracts if one["name"] == "Pure modules do no I/O")
    return {name.replace(".", "/") for name in pure}


def is_within(path: Path, names: set[str]) -> bool:
    """Whether a module, or a package it is in, is among these."""
    return any(str(one) in names for one in (path, *path.parents))


def named_by(package: Path) -> dict[str, bool]:
    """What the docstring of a package names, a line each: whether it is marked as pure, by name."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    lines = re.findall(r"^(\w+/?)( =)? {2,}\S", text, flags=re.MULTILINE)
    return {name: bool(mark) for name, mark in lines}


def test_each_package_names_its_modules_and_marks_the_pure_ones() -> None:
    """A new module gets a line in `__init__.py`. In a package that is pure as a whole nothing is marked."""
    pure = pure_modules()
    packages = {path.parent for top in PRODUCT for path in (ROOT / top).rglob("__init__.py")} - {GENERATED}
    amiss: list[str] = []
    for package in packages - {ROOT / "accelet"}:
        here = package.relative_to(ROOT)
        names = {path.stem: path for path in package.glob("*.py") if not path.stem.startswith("__")}
        names |= {f"{path.parent.name}/": path.parent for path in package.glob("*/__init__.py")}
        there = {
            name: is_within(here / name.rstrip("/"), pure) and not is_within(here, pure) for name in names
        }
        for name, mark in there.items() - named_by(package).items():
            amiss.append(f"{here}/__init__.py lacks the line {name + ' =' if mark else name}")
        for name, mark in named_by(package).items() - there.items():
            amiss.append(f"{here}/__init__.py has the line {name + ' =' if mark else name}")
    assert sorted(amiss) == []


def test_the_way_in_stays_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 110
