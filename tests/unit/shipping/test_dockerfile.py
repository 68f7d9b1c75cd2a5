"""The Dockerfile makes the image that the end-to-end tests put together without Docker."""

import re
import tomllib
from pathlib import Path

import pytest

from release.dockerfile import instructions, read_dockerfile
from release.places import COMMAND

PROJECT = Path(__file__).parent.parent.parent.parent
DOCKERFILE = PROJECT / "Dockerfile"
SAID = list(instructions(DOCKERFILE.read_text()))


def test_it_starts_the_agent_without_a_shell() -> None:
    settings = read_dockerfile(DOCKERFILE)
    assert settings.entrypoint == ["/usr/local/bin/accelet"]
    assert settings.command == ["agent"]
    assert settings.user == "0:0"


def test_command_is_one_the_project_installs() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert Path(read_dockerfile(DOCKERFILE).entrypoint[0]).name in project["scripts"]


def test_both_images_are_what_the_locks_make() -> None:
    """The end-to-end tests' image is made by these functions too."""
    assert f"/{COMMAND}" == read_dockerfile(DOCKERFILE).entrypoint[0]
    made = [rest for name, rest in SAID if name == "RUN" and "-m release root /image" in rest]
    copied = [rest for name, rest in SAID if name == "COPY" and "--from=build" in rest]
    assert len(made) == 1
    assert copied == ["--from=build /image/base /", "--from=build /image/project /"]


def test_builder_gets_nothing_that_is_not_locked() -> None:
    installs = [rest for name, rest in SAID if name == "RUN" and "pip install" in rest]
    assert len(installs) == 1
    assert "--require-hashes --requirement locks/build.txt" in installs[0]


def test_everything_the_image_is_made_of_reaches_the_builder() -> None:
    wheel = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    wanted = (PROJECT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in (*wheel["packages"], "locks", "release")} <= set(wanted)


def test_nothing_in_it_is_of_one_architecture_only() -> None:
    assert not re.search("amd64|arm64|x86_64|aarch64", " ".join(rest for _, rest in SAID))


def test_image_begins_with_nothing_and_any_builder_can_be_chosen() -> None:
    assert SAID[0][0] == "ARG"
    assert SAID[0][1].startswith("BUILDER=python:3.")
    assert [rest.split()[0] for name, rest in SAID if name == "FROM"] == ["${BUILDER}", "scratch"]


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
