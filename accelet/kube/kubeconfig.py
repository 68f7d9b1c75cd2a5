"""Kubeconfig files as kubectl reads them: which ones, and what several of them say together.

The rules are those of client-go 0.36 (tools/clientcmd, loader.go): of two entries of one name the first
file's counts, and so does the first `current-context`. Relative paths are those of the file's own folder.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from accelet.kube.errors import ConfigurationError
from accelet.runtime.foreign.yamltext import ForeignYamlError, load_yaml

MOST_BYTES: Final = 4 << 20
"""Of one file. Those of people with hundreds of clusters are some hundred kilobytes large."""

MOST_FILES: Final = 100

_ENTRIES: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS: Final = {
    "clusters": ("certificate-authority",),
    "contexts": (),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_FORM: Final = (
    "is not in the form that kubectl writes, a mapping with lists of clusters, contexts and users; "
    "'kubectl config view' shows what kubectl reads of it"
)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Files that say how to reach API servers, and which of their contexts counts (None: the current one).

    `is_explicit`: the person named the one file, so that it has to be there. Else missing ones are skipped.
    """

    files: tuple[Path, ...]
    context: str | None = None
    is_explicit: bool = True

    def __str__(self) -> str:
        return os.pathsep.join(map(str, self.files))


@dataclass(frozen=True, slots=True)
class Merged:
    """What the files say together. `document` has the form of one kubeconfig, its paths absolute.

    `cluster` and `namespace` are those of the context; None where it says none. `user` is its user.
    """

    context: str
    cluster: str
    user: str | None = None
    namespace: str | None = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)


def find_kubeconfig(
    given: Path | None, context: str | None, environment: Mapping[str, str], home: Path
) -> Kubeconfig | None:
    """What kubectl would read: the file that is given, else those of KUBECONFIG, else ~/.kube/config.

    None: nothing is named, ~/.kube/config is not there, and no context was asked for. A pod then has its
    service account.
    """
    if given is not None:
        return Kubeconfig((given,), context)
    listed = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        return Kubeconfig(tuple(map(Path, listed[:MOST_FILES])), context, is_explicit=False)
    usual = home / ".kube/config"
    return Kubeconfig((usual,), context) if context is not None or usual.exists() else None


def read_kubeconfig(chosen: Kubeconfig) -> Merged:
    """What the files say together of the context.

    Raises:
        ConfigurationError: a file cannot be read, or none says how to reach a cluster. The text quotes
            nothing of them but the names of contexts.
    """
    there = [file for file in chosen.files if chosen.is_explicit or file.exists()]
    if not there:
        raise ConfigurationError(f"kubeconfig {chosen}: there is no such file")
    return merge(chosen, [(file, _load(file)) for file in there])


def merge(chosen: Kubeconfig, documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> Merged:
    """What documents, each with the file it is from, say together of the context.

    Raises:
        ConfigurationError: one is not in the form of a kubeconfig, or they do not describe the context.
    """
    entries: dict[str, dict[str, Mapping[str, Any]]] = {kind: {} for kind in _ENTRIES}
    current = ""
    for file, document in documents:
        said = document.get("current-context") or ""
        if not isinstance(said, str):
            raise ConfigurationError(f"kubeconfig {file} {_FORM}")
        current = current or said
        for kind in _ENTRIES:
            for name, entry in _entries(file, document, kind):
                entries[kind].setdefault(name, _with_absolute_paths(file, kind, entry))
    name = chosen.context or current
    if not name:
        raise ConfigurationError(
            f"kubeconfig {chosen}: it has no current-context: give --context NAME{_known(entries)}"
        )
    context = entries["contexts"].get(name)
    if context is None:
        raise ConfigurationError(f"kubeconfig {chosen}: there is no context {name!r}{_known(entries)}")
    cluster, user = _text(context.get("cluster")), _text(context.get("user"))
    if cluster is None or cluster not in entries["clusters"]:
        raise ConfigurationError(f"kubeconfig {chosen}: the cluster of context {name!r} is not there")
    if user is not None and user not in entries["users"]:
        raise ConfigurationError(f"kubeconfig {chosen}: the user of context {name!r} is not there")
    return Merged(
        context=name,
        cluster=cluster,
        user=user,
        namespace=_text(context.get("namespace")),
        document=_document(name, entries),
    )


def _document(context: str, entries: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    lists = {
        kind: [{"name": name, singular: entry} for name, entry in entries[kind].items()]
        for kind, singular in _ENTRIES.items()
    }
    return {"apiVersion": "v1", "kind": "Config", "current-context": context, **lists}


def _known(entries: Mapping[str, Mapping[str, object]]) -> str:
    names = sorted(entries["contexts"])
    if not names:
        return ""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f" (there are {', '.join(names[:8])}{more})"


def _load(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {file}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise ConfigurationError(f"kubeconfig {file} is larger than {MOST_BYTES} bytes")
    try:
        document = load_yaml(content, takes_aliases=True)
    except ForeignYamlError as error:
        line = f" (line {error.line})" if error.line else ""
        raise ConfigurationError(f"kubeconfig {file} is {str(error).partition(':')[0]}{line}") from None
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"kubeconfig {file} {_FORM}")
    return document


def _entries(file: Path, document: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of a list by name; one that says nothing is empty."""
    listed = document.get(kind) or []
    if not isinstance(listed, list):
        raise ConfigurationError(f"kubeconfig {file} {_FORM}")
    for item in listed:
        entry = item.get(_ENTRIES[kind]) or {} if isinstance(item, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(item.get("name"), str):
            raise ConfigurationError(f"kubeconfig {file} {_FORM}")
        yield item["name"], entry


def _with_absolute_paths(file: Path, kind: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    folder = Path(os.path.abspath(file)).parent  # noqa: PTH100 - links are not followed, as in client-go
    found = dict(entry)
    for name in _PATHS[kind]:
        if isinstance(path := entry.get(name), str) and path:
            found[name] = str(folder / path)
    plugin = entry.get("exec")
    if isinstance(plugin, Mapping) and "/" in str(plugin.get("command") or ""):
        found["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
