"""How this installation is given one of its extras: from where it was installed itself.

Whoever holds the name on an index may be anybody. pip notes in direct_url.json what came from a file, a
folder or a repository (PEP 610); only what came from an index, or by --find-links, has no such note.
"""

import shlex
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

NAME: Final = "accelet"


class _Folder(msgspec.Struct):
    editable: bool = False


class _Repository(msgspec.Struct):
    vcs: str
    commit_id: str = ""


class _Origin(msgspec.Struct):
    url: str
    subdirectory: str = ""
    dir_info: _Folder | None = None
    vcs_info: _Repository | None = None


def explain_install(extra: str) -> str:
    """What to type to have an extra of this installation."""
    try:
        installed = distribution(NAME)
    except PackageNotFoundError:
        return f"install it with the extra {extra!r}, as accelet was installed"
    return install_command(extra, installed.version, installed.read_text("direct_url.json"))


def install_command(extra: str, version: str, origin: str | None) -> str:
    """Likewise, by what pip has noted; `origin` is the text of direct_url.json, None where there is none."""
    try:
        found = msgspec.json.decode(origin, type=_Origin) if origin else None
        place = None if found is None else _place(found, extra)
    except ValueError:  # damaged, or by another standard
        place = None
    if place is None:
        wanted = shlex.quote(f"{NAME}[{extra}]=={version}")
        return f"pip install {wanted}, from the same index or folder as before"
    return f"pip install {place}"


def _place(origin: _Origin, extra: str) -> str:
    """The words after `pip install`.

    Raises:
        ValueError: the URL is none.
    """
    url = urlsplit(origin.url)
    below = f"#subdirectory={origin.subdirectory}" if origin.subdirectory else ""
    if origin.vcs_info is not None:
        commit = f"@{origin.vcs_info.commit_id}" if origin.vcs_info.commit_id else ""
        return shlex.quote(f"{NAME}[{extra}] @ {origin.vcs_info.vcs}+{origin.url}{commit}{below}")
    if url.scheme != "file" or below:
        return shlex.quote(f"{NAME}[{extra}] @ {origin.url}{below}")
    path = shlex.quote(f"{unquote(url.path)}[{extra}]")
    return f"--editable {path}" if origin.dir_info is not None and origin.dir_info.editable else path
