"""Which slice a host belongs to: what is said of it, held against the chips that are there."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.accelerators.tpu.claims import Claim
from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.shape import Shape


@dataclass(frozen=True, slots=True)
class Topology:
    """The shape of a whole host and of its slice, both None where nothing fits; `warnings` are
    disagreements.
    """

    host_shape: Shape | None
    slice_shape: Shape | None
    warnings: tuple[str, ...] = ()


def decide(generation: Generation, found: int, claims: Sequence[Claim]) -> Topology:
    """Holds what the sources say against the `found` chips, one or more.

    The chips that are there decide what kind of host it is; a source may say that there should be more of
    them, and of which slice they are a part. The first source that fits is followed, each that does not is a
    warning.
    """
    warnings = [
        f"{claim.source} names {claim.generation.name} TPUs, the chips found are {generation.name}: "
        "they are served as what they are"
        for claim in claims
        if claim.generation not in {None, generation}
    ]
    host_shape, of_count = _decide_host(generation, found, claims)
    warnings += of_count
    if host_shape is None:
        return Topology(None, None, tuple(warnings))
    slice_shape, of_slice = _decide_slice(generation, host_shape, claims)
    return Topology(host_shape, slice_shape, (*warnings, *of_slice))


def _decide_host(
    generation: Generation, found: int, claims: Sequence[Claim]
) -> tuple[Shape | None, list[str]]:
    sizes = generation.chips_per_host
    fitting = min((size for size in sizes if size >= found), default=None)
    warnings: list[str] = []
    expected: int | None = None
    for claim in claims:
        if claim.chips is None:
            continue
        if claim.chips not in sizes or claim.chips < found:
            warnings.append(f"{claim.source} gives this host {_chips(claim.chips)}, {found} were found")
        elif expected is None:
            expected = claim.chips
        elif claim.chips != expected:
            warnings.append(
                f"{claim.source} gives this host {_chips(claim.chips)}, another source {expected}: "
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


def _decide_slice(generation: Generation, host: Shape, claims: Sequence[Claim]) -> tuple[Shape, list[str]]:
    chosen: Shape | None = None
    warnings: list[str] = []
    for claim in claims:
        said = claim.slice_shape
        if said is None:
            continue
        text = said.text(generation.dimensions)
        if said.divided_by(host) is None:
            warnings.append(
                f"{claim.source} gives the topology {text}, which hosts of {_chips(host.chips)} "
                f"({host.text(generation.dimensions)}) cannot form: it is not used"
            )
        elif chosen is None:
            chosen = said
            known = generation.topologies()
            if known and said not in known:
                warnings.append(
                    f"{claim.source} gives the topology {text}, which is not known for {generation.name}: "
                    "it is used as it stands"
                )
        elif said != chosen:
            warnings.append(
                f"{claim.source} gives the topology {text}, another source "
                f"{chosen.text(generation.dimensions)}: {chosen.text(generation.dimensions)} is used"
            )
    return chosen or host, warnings


def _chips(count: int) -> str:
    return "1 chip" if count == 1 else f"{count} chips"
