"""The Dockerfile makes the image that the end-to-end tests put together without Docker."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.e2e.cluster.dockerfile import instructions, read_dockerfile
from tests.e2e.cluster.python_image import PREFIX, SITE_PACKAGES

PROJECT = Path(__file__).parent.parent.parent.parent
DOCKERFILE = PROJECT / "Dockerfile"
SAID = list(instructions(DOCKERFILE.read_text()))


def test_it_starts_the_agent_without_a_shell() -> None:
    settings = read_dockerfile(DOCKERFILE)
    assert settings.entrypoint == [f"/{PREFIX}/bin/accelet"]
    assert settings.command == ["agent"]
    assert settings.user == "0:0"


def test_command_is_one_the_project_installs() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert Path(read_dockerfile(DOCKERFILE).entrypoint[0]).name in project["scripts"]


def test_both_images_have_the_packages_in_the_same_place() -> None:
    copied = next(rest for name, rest in SAID if name == "COPY" and "--from=build" in rest)
    assert copied.split()[-2:] == ["/installed", f"/{PREFIX}"]
    assert SITE_PACKAGES.startswith(f"{PREFIX}/lib/python3.")


def test_every_package_the_project_ships_is_copied() -> None:
    wheel = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    copied = {rest.split()[0] for name, rest in SAID if name == "COPY"}
    assert set(wheel["packages"]) <= copied
    wanted = (PROJECT / ".dockerignore").read_text().splitlines()
    assert {f"!{package}" for package in wheel["packages"]} <= set(wanted)


def test_nothing_in_it_is_of_one_architecture_only() -> None:
    assert not re.search("amd64|arm64|x86_64|aarch64", " ".join(rest for _, rest in SAID))


def test_stages_begin_with_the_one_base_that_can_be_chosen() -> None:
    assert SAID[0][0] == "ARG"
    assert SAID[0][1].startswith("BASE=python:3.")
    assert SAID[0][1].endswith(tuple(f"-slim-{release}" for release in ("bookworm", "trixie")))
    assert [rest.split()[0] for name, rest in SAID if name == "FROM"] == ["${BASE}", "${BASE}"]


def test_running_the_project_needs_no_generator_of_code() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert not any(requirement.startswith("grpcio-tools") for requirement in project["dependencies"])


def test_label_of_every_kind_is_there() -> None:
    labels = read_dockerfile(DOCKERFILE).labels
    prefix = "org.opencontainers.image."
    assert set(labels) == {
        prefix + name for name in ("title", "description", "licenses", "version", "revision")
    }


@pytest.mark.parametrize("form", ['ENTRYPOINT accelet\nCMD ["agent"]', 'ENTRYPOINT ["accelet"]\nCMD agent'])
def test_form_that_runs_a_shell_is_refused(form: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM base\nUSER 0\n{form}\n")
    with pytest.raises(ValueError, match="shell"):
        read_dockerfile(tmp_path / "Dockerfile")
