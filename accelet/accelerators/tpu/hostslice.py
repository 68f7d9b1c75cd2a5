"""What kind of host the chips are, and of which slice: what is said of it, held against what is there."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.shape import Shape
from accelet.accelerators.tpu.statements import Statement


@dataclass(frozen=True, slots=True)
class HostSlice:
    """The shape of a whole host and of its slice; `warnings` are disagreements.

    Both are None where nothing fits; the slice's alone where the host is a part of one of unknown shape.
    """

    host_shape: Shape | None
    slice_shape: Shape | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundChips:
    """Chips of one generation on the bus now, the most seen at any time, and the NUMA nodes they are on."""

    now: int
    seen: int = 0
    numa_nodes: int = 0

    @property
    def most(self) -> int:
        return max(self.now, self.seen)


def decide(generation: Generation, found: FoundChips, statements: Sequence[Statement]) -> HostSlice:
    """Holds what the sources say against the chips that were found, one or more.

    The chips decide what kind of host it is; a source may say that there should be more of them, and of
    which slice they are a part. The first source that fits is followed. One that contradicts the chips is a
    warning, and nothing else that it says is used.
    """
    sizes = _possible_sizes(generation, found)
    trusted: list[Statement] = []
    warnings: list[str] = []
    for statement in statements:
        fault = _contradiction(generation, found, sizes, statement)
        if fault is None:
            trusted.append(statement)
        else:
            warnings.append(fault)
    host_shape, of_count = _decide_host(generation, found, sizes, trusted)
    warnings += of_count
    if host_shape is None:
        return HostSlice(None, None, tuple(warnings))
    slice_shape, of_slice = _decide_slice(generation, host_shape, trusted)
    return HostSlice(host_shape, slice_shape, (*warnings, *of_slice))


def _possible_sizes(generation: Generation, found: FoundChips) -> list[int]:
    """The hosts these chips can be of. Only the largest of a generation spread over several NUMA nodes.

    Source: Google, "TPU v5e" (VM types): hosts of 1 and 4 chips have one NUMA node, those of 8 have two.
    """
    sizes = [size for size in sorted(generation.chips_per_host) if size >= found.most]
    return sizes[-1:] if found.numa_nodes > 1 else sizes


def _contradiction(
    generation: Generation, found: FoundChips, sizes: Sequence[int], statement: Statement
) -> str | None:
    """Why what a source says cannot be of these chips, as a sentence."""
    if statement.generation not in {None, generation}:
        assert statement.generation is not None
        return (
            f"{statement.source} names {statement.generation.name} TPUs, the chips found are "
            f"{generation.name}: they are served as what they are, and nothing else it says is used"
        )
    if statement.chips is None or statement.chips in sizes:
        return None
    said = f"{statement.source} gives this host {_chips(statement.chips)}"
    if statement.chips < found.now or statement.chips not in generation.chips_per_host:
        return f"{said}, {found.now} were found"
    if statement.chips < found.seen:
        return f"{said}, {found.seen} were seen here before"
    return f"{said}, and those found are on {found.numa_nodes} NUMA nodes, as on a host of {sizes[-1]}"


def _decide_host(
    generation: Generation, found: FoundChips, sizes: Sequence[int], statements: Sequence[Statement]
) -> tuple[Shape | None, list[str]]:
    warnings: list[str] = []
    expected: int | None = None
    for statement in statements:
        if statement.chips is None:
            continue
        if expected is None:
            expected = statement.chips
        elif statement.chips != expected:
            warnings.append(
                f"{statement.source} gives this host {_chips(statement.chips)}, another source {expected}: "
                f"{expected} it is"
            )
    chips = expected or next(iter(sizes), None)
    if chips is None:
        warnings.append(
            f"{_chips(found.most)} were found, more than any {generation.name} host has: no bounds are set"
        )
        return None, warnings
    if found.now < chips:
        warnings.append(
            f"{found.now} of {chips} chips were found: the others do not appear on the PCI bus. "
            "A container gets what can still be used together"
        )
    return generation.host_shape(chips), warnings


def _decide_slice(
    generation: Generation, host: Shape, statements: Sequence[Statement]
) -> tuple[Shape | None, list[str]]:
    chosen: Shape | None = None
    is_untold = False
    warnings: list[str] = []
    for statement in statements:
        said, warning = _read_slice(generation, host, statement)
        if warning is not None:
            warnings.append(warning)
        if said is None:
            is_untold |= statement.slice_chips not in {None, host.chips}
        elif chosen is None:
            chosen = said
        elif said != chosen:
            text = chosen.text(generation.dimensions)
            warnings.append(
                f"{statement.source} gives the topology {said.text(generation.dimensions)}, another source "
                f"{text}: {text} is used"
            )
    if chosen is None and is_untold:
        warnings.append(
            "of which slice this host is a part is not known: containers are told nothing of it. "
            "Say so with the setting topology"
        )
        return None, warnings
    return chosen or host, warnings


def _read_slice(generation: Generation, host: Shape, statement: Statement) -> tuple[Shape | None, str | None]:
    """The slice's shape that a source gives, and what is odd about it."""
    said, chips = statement.slice_shape, statement.slice_chips
    if said is None and statement.host_grid is not None:
        said = statement.host_grid.times(host)
    if said is None:
        return (None, None) if chips is None else _read_slice_chips(generation, host, statement.source, chips)
    known, text = generation.topologies(), said.text(generation.dimensions)
    gives = f"{statement.source} gives the topology {text}"
    if said.divided_by(host) is None:
        shape = host.text(generation.dimensions)
        return None, f"{gives}, which hosts of {_chips(host.chips)} ({shape}) cannot form: it is not used"
    if chips is not None and chips != said.chips:
        return None, f"{gives}, and an accelerator type of {_chips(chips)}: neither is used"
    if known and said not in known:
        return said, f"{gives}, which is not known for {generation.name}: it is used as it stands"
    return said, None


def _read_slice_chips(
    generation: Generation, host: Shape, source: str, chips: int
) -> tuple[Shape | None, str | None]:
    """The one shape a slice of so many chips can have, if there is one."""
    if chips == host.chips:
        return host, None
    known = [each for each in generation.topologies() if each.chips == chips and each.divided_by(host)]
    if len(known) == 1:
        return known[0], None
    shapes = " or ".join(each.text(generation.dimensions) for each in known) or "no known shape"
    return None, f"{source} gives the slice {_chips(chips)}, which can be {shapes}"


def _chips(count: int) -> str:
    return "1 chip" if count == 1 else f"{count} chips"
