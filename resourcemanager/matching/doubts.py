"""What to say when it cannot be told whom a call is for."""

from collections.abc import Sequence

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from resourcemanager.matching.inquiry import CallFacts, Doubt, Match, NoProof, Step


def accept_single(found: Sequence[Match], evidence: CallFacts) -> Step:
    """The one match there is, or why none is proven."""
    if not found:
        return NoProof(
            Doubt.NOBODY,
            "Neither the API server nor the kubelet shows a pod on this node that is waiting for"
            f" {_amount(evidence)}; a static pod is not shown before it is admitted.",
        )
    if len(found) > 1:
        return _several(found, evidence)
    (match,) = found
    if match.pod.is_mirror:
        return NoProof(
            Doubt.STATIC,
            f"The call may be for the static pod {_name(match.pod)}, of which the API server learns only"
            " after it is admitted.",
        )
    return match


def _several(found: Sequence[Match], evidence: CallFacts) -> NoProof:
    names = sorted({_name(match.pod) for match in found})
    if len(names) == 1:
        return NoProof(
            Doubt.CONTAINER,
            f"Several containers of pod {names[0]} wait for {_amount(evidence)}, and nothing tells which of"
            " them the kubelet asks for.",
        )
    return NoProof(
        Doubt.SEVERAL,
        f"The kubelet does not tell which of {len(names)} pods it asks for that lack {_amount(evidence)}:"
        f" {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}.",
    )


def doubt_rival(rival: Pod, evidence: CallFacts) -> NoProof:
    return NoProof(
        Doubt.RIVAL,
        f"Pod {_name(rival)} is on this node without the {_amount(evidence)} it asks for, so the call may"
        " be for one of its containers. Delete that pod.",
    )


def doubt_hidden_rival(rival: Pod, evidence: CallFacts) -> NoProof:
    return NoProof(
        Doubt.RIVAL,
        f"Pod {_name(rival)}, which is gone or ending, was on this node without the {_amount(evidence)}"
        " it asks for, so the call may be for a container of it that is starting still.",
    )


def doubt_taken_up(rival: Pod, evidence: CallFacts) -> NoProof:
    return NoProof(
        Doubt.RIVAL,
        f"Pod {_name(rival)}, which was deleted by force before it began, mounts no service account token, so"
        f" the kubelet may be starting it all the same, and the {_amount(evidence)} may be for it.",
    )


def doubt_former(pod: Pod, former: Sequence[Match]) -> NoProof:
    """`former` are the openings of former pods, in the order of their deletion, in which the kubelet comes to
    them.

    Whichever of them the call is for, the kubelet is past the first once that is refused; the others may
    still come. Empty where it is not known which former pod it is, if one.
    """
    return NoProof(
        Doubt.SEVERAL,
        f"Pod {_name(pod)} was made anew after a former one of its name had been deleted by force, and the"
        " kubelet does not tell which of the two it asks for.",
        former=former[0].owner.pod_uid if former else None,
    )


def doubt_unknown_former(pod: Pod) -> NoProof:
    """Whom the kubelet is past once that is refused, nobody knows."""
    return NoProof(
        Doubt.UNVERIFIED,
        "It is not known which pods were deleted before the watch of this node's pods began; the kubelet may"
        f" be admitting a former pod {_name(pod)}.",
    )


def doubt_namesakes(name: ObjectKey, evidence: CallFacts) -> NoProof:
    return NoProof(
        Doubt.SEVERAL,
        f"The kubelet shows two pods {'/'.join(name)}, and does not tell which of them waits for"
        f" {_amount(evidence)}.",
    )


def doubt_name(pod: Pod) -> NoProof:
    return NoProof(
        Doubt.UNVERIFIED,
        f"The API server does not answer, and the kubelet may be admitting a newer pod {_name(pod)}.",
    )


def doubt_watch(pod: Pod) -> NoProof:
    return NoProof(
        Doubt.UNVERIFIED,
        f"The watch of this node's pods is behind and has not shown pod {_name(pod)}; the kubelet may be"
        " admitting a former one of its name.",
    )


def doubt_vanished() -> NoProof:
    return NoProof(
        Doubt.UNVERIFIED,
        "The watch of this node's pods is behind and has not shown how a pod ended that is gone; the kubelet"
        " may be starting it all the same.",
    )


def doubt_api_server() -> NoProof:
    return NoProof(
        Doubt.UNVERIFIED,
        "The API server does not answer, and this kubelet does not show by itself which pods it turned away.",
    )


def doubt_stranger(name: ObjectKey) -> NoProof:
    return NoProof(
        Doubt.STRANGER, f"The kubelet shows pod {'/'.join(name)}, which the API server does not know."
    )


def _name(pod: Pod) -> str:
    return "/".join(pod.key)


def _amount(evidence: CallFacts) -> str:
    return f"{evidence.size} {evidence.ledger.resource}"
