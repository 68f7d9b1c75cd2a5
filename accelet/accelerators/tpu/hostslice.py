"""Which slice a host belongs to: what is said of it, held against the chips that are there."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.shape import Shape
from accelet.accelerators.tpu.statements import Statement


@dataclass(frozen=True, slots=True)
class HostSlice:
    """The shape of a whole host and of its slice, both None where nothing fits; `warnings` are
    disagreements.
    """

    host_shape: Shape | None
    slice_shape: Shape | None
    warnings: tuple[str, ...] = ()


def decide(generation: Generation, found: int, statements: Sequence[Statement]) -> HostSlice:
    """Holds what the sources say against the `found` chips, one or more.

    The chips that are there decide what kind of host it is; a source may say that there should be more of
    them, and of which slice they are a part. The first source that fits is followed, each that does not is a
    warning.
    """
    warnings = [
        f"{statement.source} names {statement.generation.name} TPUs, the chips found are {generation.name}: "
        "they are served as what they are"
        for statement in statements
        if statement.generation not in {None, generation}
    ]
    host_shape, of_count = _decide_host(generation, found, statements)
    warnings += of_count
    if host_shape is None:
        return HostSlice(None, None, tuple(warnings))
    slice_shape, of_slice = _decide_slice(generation, host_shape, statements)
    return HostSlice(host_shape, slice_shape, (*warnings, *of_slice))


def _decide_host(
    generation: Generation, found: int, statements: Sequence[Statement]
) -> tuple[Shape | None, list[str]]:
    sizes = generation.chips_per_host
    fitting = min((size for size in sizes if size >= found), default=None)
    warnings: list[str] = []
    expected: int | None = None
    for statement in statements:
        if statement.chips is None:
            continue
        if statement.chips not in sizes or statement.chips < found:
            warnings.append(
                f"{statement.source} gives this host {_chips(statement.chips)}, {found} were found"
            )
        elif expected is None:
            expected = statement.chips
        elif statement.chips != expected:
            warnings.append(
                f"{statement.source} gives this host {_chips(statement.chips)}, another source {expected}: "
                f"{expected} it is"
            )
    chips = expected or fitting
    if chips is None:
        warnings.append(
            f"{_chips(found)} were found, more than any {generation.name} host has: no bounds are set"
        )
        return None, warnings
    if found < chips:
        warnings.append(
            f"{found} of {chips} chips were found: the others do not appear on the PCI bus. A container gets "
            "what can still be used together"
        )
    return generation.host_shape(chips), warnings


def _decide_slice(
    generation: Generation, host: Shape, statements: Sequence[Statement]
) -> tuple[Shape, list[str]]:
    chosen: Shape | None = None
    warnings: list[str] = []
    for statement in statements:
        said = statement.slice_shape
        if said is None:
            continue
        text = said.text(generation.dimensions)
        if said.divided_by(host) is None:
            warnings.append(
                f"{statement.source} gives the topology {text}, which hosts of {_chips(host.chips)} "
                f"({host.text(generation.dimensions)}) cannot form: it is not used"
            )
        elif chosen is None:
            chosen = said
            known = generation.topologies()
            if known and said not in known:
                warnings.append(
                    f"{statement.source} gives the topology {text}, which is not known for "
                    f"{generation.name}: it is used as it stands"
                )
        elif said != chosen:
            warnings.append(
                f"{statement.source} gives the topology {text}, another source "
                f"{chosen.text(generation.dimensions)}: {chosen.text(generation.dimensions)} is used"
            )
    return chosen or host, warnings


def _chips(count: int) -> str:
    return "1 chip" if count == 1 else f"{count} chips"
