"""Whether claims are prepared and unprepared so that a kubelet may repeat, cancel and forget."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from accelet.fakekubelet.claims.cdirules import explain_bad_device_id
from accelet.fakekubelet.claims.driverclient import Answered, ClaimRef
from accelet.fakekubelet.claims.view import DriverView
from accelet.fakekubelet.conformance.bench import (
    PATIENCE_S,
    Check,
    FailedError,
    LateError,
    SkippedError,
    timed,
)
from accelet.fakekubelet.conformance.dra.bench import NAMESPACE, DraBench
from accelet.fakekubelet.faults import GiveUp
from accelet.fakekubelet.services.plugin import CallError

_NOBODY: Final = ClaimRef(NAMESPACE, "nobody", "5f1d0f4e-0000-4000-8000-000000000009")
_SOON_S: Final = 2.0
_FOREIGN: Final = {
    "vendor.com-gpu.json": b'{"cdiVersion": "0.5.0", "kind": "vendor.com/gpu", "devices": '
    b'[{"name": "0", "containerEdits": {"env": ["VENDOR=0"]}}]}',
    "other.com-claim_5f1d0f4e-0000-4000-8000-000000000007.json": b'{"cdiVersion": "0.5',
    "README": b"What an administrator left here.\n",
}
"""By name; the second one is damaged."""


async def prepares(bench: DraBench) -> str:
    view = await bench.ready()
    (wanted,) = bench.allocation(view)
    ref = bench.claim(view, results=[wanted])
    answer = await bench.asked(view, ref)
    if answer.error:
        raise FailedError(f"it refused the claim of one of its devices: {answer.error}")
    told = {(device.pool, device.device) for device in answer.devices}
    if told != {(wanted["pool"], wanted["device"])}:
        raise FailedError(f"the claim has {wanted['device']} of {wanted['pool']}, and it answered {told}")
    return f"{len(answer.devices)} devices"


async def prepares_the_same_again(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    first = await bench.prepared(view, ref)
    again = await bench.asked(view, ref)
    if again != first:
        raise FailedError(f"asked again it answered otherwise: {again.error or 'other devices'}")
    return "the same answer"


async def mends_its_files(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    for path in bench.cdi_files():
        path.unlink()
    again = await bench.asked(view, ref)
    if missing := bench.missing(again):
        raise FailedError(f"after its CDI files were removed it prepared again without them: {missing}")
    for path in bench.cdi_files():
        # What a crash leaves of a file that was not synced to disk.
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    again = await bench.asked(view, ref)
    if missing := bench.missing(again):
        raise FailedError(f"after its CDI files were damaged it prepared again and left them so: {missing}")
    return "its CDI files are back, and whole"


async def prepares_once_for_two(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    answers = await asyncio.gather(bench.asked(view, ref), bench.asked(view, ref))
    for answer in answers:
        if answer.error:
            raise FailedError(f"two calls at once for one claim: {answer.error}")
    missing = [why for answer in answers if (why := bench.missing(answer)) is not None]
    await bench.prepared(view, ref)
    if missing:
        raise FailedError(f"after two calls at once for one claim: {missing[0]}")
    return "two calls at once"


async def remembers_over_its_restart(bench: DraBench) -> str:
    view = await bench.ready()
    before = set(bench.cdi_files())
    if await _is_left(bench, view):
        raise SkippedError("Unprepare leaves files also without a restart (see U1)")
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    await bench.restarted(view)
    if error := await bench.unprepared(view, ref):
        raise FailedError(f"after its restart it did not unprepare a claim: {error}")
    if left := sorted(set(bench.cdi_files()) - before):
        raise FailedError(f"after its restart Unprepare left {left[0].name}")
    return "it unprepared what was prepared before"


async def _is_left(bench: DraBench, view: DriverView) -> bool:
    """Whether a claim leaves files though it has been unprepared."""
    before = bench.cdi_files()
    ref = bench.claim(view, "before")
    await bench.prepared(view, ref)
    await bench.unprepared(view, ref)
    return bench.cdi_files() != before


async def fails_for_one_claim_alone(bench: DraBench) -> str:
    view = await bench.ready()
    good = bench.claim(view)
    try:
        answers = await view.client.prepare([_NOBODY, good])
    except CallError as error:
        raise FailedError(f"a claim that is not there failed the call for all: {error}") from error
    if good.uid not in answers or answers[good.uid].error:
        raise FailedError("a claim that is not there took another one along")
    if _NOBODY.uid not in answers or not answers[_NOBODY.uid].error:
        raise FailedError("a claim that is not there has no error of its own")
    return f"its error: {answers[_NOBODY.uid].error}"


async def refuses_what_it_has_not(bench: DraBench) -> str:
    view = await bench.ready()
    answer = await bench.asked(view, bench.claim(view, device="no-such-device"))
    if not answer.error:
        raise FailedError("it prepared a device that it does not have")
    return f"its error: {answer.error}"


async def refuses_another_claim_of_the_name(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    answer = await bench.asked(view, ClaimRef(ref.namespace, ref.name, _NOBODY.uid))
    if not answer.error:
        raise FailedError("it prepared a claim by its name, though its uid is another")
    return f"its error: {answer.error}"


async def gives_nothing_twice(bench: DraBench) -> str:
    view = await bench.ready()
    (wanted,) = bench.allocation(view)
    if "shareID" in wanted:
        raise SkippedError("its first device may be shared")
    await bench.prepared(view, bench.claim(view, results=[wanted]))
    two = bench.claim(view, "two", results=[wanted])
    bench.kubelet.faults.prepare.inject(GiveUp(PATIENCE_S), times=1)  # it may wait for the device
    try:
        answers = await view.client.prepare([two])
    except CallError:
        return "it waits for the device"
    if (answer := answers.get(two.uid)) is None:
        raise SkippedError("it does not answer for the claim (see P13)")
    if not answer.error:
        raise FailedError("it gave one device to two claims")
    return f"its error: {answer.error}"


async def bears_a_cancelled_call(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    for seconds in (0.0, 0.02, 1.0):
        bench.kubelet.faults.prepare.inject(GiveUp(seconds), times=1)
        try:
            await view.client.prepare([ref])
        except CallError:
            continue
    await asyncio.sleep(0.5)  # what was cancelled may take a moment to end
    try:
        answer = await asyncio.wait_for(bench.asked(view, ref), PATIENCE_S)
    except TimeoutError:
        raise FailedError("after cancelled calls it does not answer any more") from None
    if answer.error:
        raise FailedError(f"after cancelled calls it does not prepare: {answer.error}")
    return "it prepares after three cancelled calls"


async def answers_for_the_request(bench: DraBench) -> str:
    """A container that names a request gets the devices that were answered for it, and no others.

    Without request names a device is for all of them (pkg/kubelet/cm/dra/claiminfo.go, cdiDevicesAsList), and
    names that no request has reach no container that names one. A claim of two requests tells most; a driver
    may refuse it.
    """
    view = await bench.ready()
    (one,) = bench.allocation(view)
    ref = bench.claim(view, results=[one])
    _refuse_other_requests([one], await bench.prepared(view, ref))
    if error := await bench.unprepared(view, ref):
        raise SkippedError(f"it does not unprepare (see U1): {error}")
    several = bench.allocation(view, 2) if _has_two(bench, view) else []
    asked = [{**result, "request": name} for result, name in zip(several, ("first", "second"), strict=False)]
    if not asked:
        return "one request"
    answer = await bench.asked(view, bench.claim(view, "two", results=asked))
    if answer.error:
        return f"one request; two are refused: {answer.error}"
    _refuse_other_requests(asked, answer)
    return "one request, and two"


def _has_two(bench: DraBench, view: DriverView) -> bool:
    try:
        bench.allocation(view, 2)
    except SkippedError:
        return False
    return True


def _refuse_other_requests(results: Sequence[Mapping[str, str]], answer: Answered) -> None:
    """Raises FailedError unless each request gets its device, and no other device that was allocated."""
    allocated = {(result["pool"], result["device"]) for result in results}
    for result in results:
        given = {
            (device.pool, device.device)
            for device in answer.devices
            if not device.requests or result["request"] in device.requests
        }
        wanted = (result["pool"], result["device"])
        if wanted not in {(device.pool, device.device) for device in answer.devices}:
            raise SkippedError("it does not answer for what was allocated (see P1)")
        if wanted not in given:
            raise FailedError(
                f"the request {result['request']} has {wanted[1]}, which is answered for another one"
            )
        if len(results) > 1 and (odd := sorted(given & allocated - {wanted})):
            raise FailedError(
                f"the request {result['request']} has {wanted[1]}, and is given {odd[0][1]} too"
            )


async def writes_usable_cdi_files(bench: DraBench) -> str:
    """Every CDI device of the answer is in a file that a container runtime takes.

    A runtime leaves out a whole file for one fault: empty edits, a version that is too old for what is in it,
    a field it does not know. Sources: `claims.cdirules`. The kubelet passes names on unread.
    """
    view = await bench.ready()
    answer = await bench.asked(view, bench.claim(view))
    if answer.error or not answer.devices:
        raise SkippedError(f"it does not prepare (see P1): {answer.error or 'no devices'}")
    names = [name for device in answer.devices for name in device.cdi_ids]
    if not names:
        raise SkippedError("it names no CDI devices")
    for name in names:
        if (why := explain_bad_device_id(name)) is not None:
            raise FailedError(why)
    if missing := bench.missing(answer):
        raise FailedError(missing)
    return f"{len(names)} CDI devices, which a runtime finds"


async def answers_for_what_is_asked(bench: DraBench) -> str:
    """One answer for each claim, and none for any other: either fails the pod of all of them.

    Source: pkg/kubelet/cm/dra/manager.go, prepareResources ("returned result for unknown claim UID",
    "skipped N ResourceClaims") and unprepareResources, Kubernetes 1.36.
    """
    view = await bench.ready()
    refs = [bench.claim(view), _NOBODY]
    wanted = {ref.uid for ref in refs}
    for what, call in (("Prepare", view.client.prepare), ("Unprepare", view.client.unprepare)):
        try:
            answered = set(await call(refs))
        except CallError as error:
            raise SkippedError(f"{what} failed for all (see P6): {error}") from error
        if odd := sorted(answered - wanted):
            raise FailedError(f"{what} answered for {odd[0]}, which was not asked for")
        if left := wanted - answered:
            raise FailedError(f"{what} left out {len(left)} of {len(wanted)} claims")
    return "two claims, two answers"


async def prepares_soon(bench: DraBench) -> str:
    """Within 2 s, for one claim of one device.

    The kubelet gives a driver 45 s for all claims of a pod together, and tries again a minute or more later
    (pkg/kubelet/cm/dra/plugin/dra_plugin.go, defaultClientCallTimeout). Unprepare holds up the pod's end.
    """
    view = await bench.ready()
    (one,) = bench.allocation(view)
    took: dict[str, list[float]] = {"Prepare": [], "Unprepare": []}
    for name in ("first", "second"):
        ref = bench.claim(view, name, results=[one])
        took["Prepare"].append(await timed(bench.prepared(view, ref)))
        took["Unprepare"].append(await timed(bench.unprepared(view, ref)))
    # The first may have more to do than others.
    for what, seconds in took.items():
        if (least := min(seconds)) > _SOON_S:
            text = f"{what} takes {least:.1f} s for one claim; {_SOON_S:g} s are allowed"
            raise LateError(text, least - _SOON_S)
    return f"{min(took['Prepare']) * 1000:.0f} ms, Unprepare {min(took['Unprepare']) * 1000:.0f} ms"


async def leaves_foreign_files(bench: DraBench) -> str:
    """Files of others stay as they are, over its restart too, and one that is damaged stops nobody.

    The folder is the container runtime's, and every vendor writes there (CDI, SPEC.md).
    """
    view = await bench.ready()
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    foreign = {bench.cdi / name: content for name, content in _FOREIGN.items()}
    for path, content in foreign.items():
        path.write_bytes(content)
    for when in ("beside files of others", "after its restart beside files of others"):
        answer = await bench.asked(view, ref)
        if answer.error:
            raise FailedError(f"{when} it does not prepare: {answer.error}")
        if error := await bench.unprepared(view, ref):
            raise FailedError(f"{when} it does not unprepare: {error}")
        _refuse_changed(foreign)
        await bench.restarted(view)
    await bench.ended()
    _refuse_changed(foreign)
    return f"{len(foreign)} files of others are as they were"


async def answers_for_what_is_allocated_now(bench: DraBench) -> str:
    """A claim keeps its uid when it is deallocated and allocated again, and has other devices then.

    That happens to a named claim whose pod was deleted by force: nobody unprepares it first
    (pkg/controller/resourceclaim/controller.go deallocates when nobody has it reserved). A driver may refuse
    it until then; the devices of before are another claim's by now.
    """
    view = await bench.ready()
    one, two = bench.allocation(view, 2)
    ref = bench.claim(view, results=[one])
    await bench.prepared(view, ref)
    bench.cluster.allocate(ref.namespace, ref.name, [two])
    answer = await bench.asked(view, ref)
    if answer.error:
        return f"it refuses it: {answer.error}"
    if (one["pool"], one["device"]) in {(device.pool, device.device) for device in answer.devices}:
        raise FailedError(
            f"the claim was given {two['device']} instead of {one['device']}, and it still answers the latter"
        )
    return "the devices of now"


def _refuse_changed(foreign: Mapping[Path, bytes]) -> None:
    for path, content in foreign.items():
        if not path.exists():
            raise FailedError(f"it removed {path.name}, which is not its own")
        if path.read_bytes() != content:
            raise FailedError(f"it changed {path.name}, which is not its own")


async def unprepares(bench: DraBench) -> str:
    view = await bench.ready()
    before = set(bench.cdi_files())
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    if error := await bench.unprepared(view, ref):
        raise FailedError(f"it did not unprepare: {error}")
    if left := sorted(set(bench.cdi_files()) - before):
        raise FailedError(f"Unprepare left {left[0].name} in the CDI folder")
    return "nothing is left"


async def unprepares_what_it_does_not_know(bench: DraBench) -> str:
    view = await bench.ready()
    if error := await bench.unprepared(view, _NOBODY):
        raise FailedError(f"it did not unprepare a claim it does not know: {error}; the pod would never end")
    return "success"


async def unprepares_without_the_claim(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    bench.cluster.delete("resourceclaims", ref.namespace, ref.name)
    bench.cluster.delete("pods", ref.namespace, ref.name)
    if error := await bench.unprepared(view, ref):
        raise FailedError(f"it did not unprepare a claim that has been deleted: {error}")
    return "success"


async def leaves_the_other_claims(bench: DraBench) -> str:
    """Unprepare takes back the devices of its claim alone.

    A container runtime reads CDI files at each start of a container, a restart too, and asks no driver.
    """
    view = await bench.ready()
    one, two = bench.allocation(view, 2)
    first, second = bench.claim(view, "one", results=[one]), bench.claim(view, "two", results=[two])
    await bench.prepared(view, first)
    kept = await bench.prepared(view, second)
    if error := await bench.unprepared(view, first):
        raise SkippedError(f"it does not unprepare (see U1): {error}")
    if missing := bench.missing(kept):
        raise FailedError(f"Unprepare of one claim took the files of another along: {missing}")
    return "the files of the other claim are there"


async def unprepares_without_its_files(bench: DraBench) -> str:
    """The folder of CDI files is empty after a boot, and whoever clears it must not keep pods from ending."""
    view = await bench.ready()
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    for path in bench.cdi_files():
        path.unlink()
    if error := await bench.unprepared(view, ref):
        raise FailedError(
            f"when its CDI files were gone it did not unprepare: {error}; the pod would never end"
        )
    return "success"


PREPARING: Final[tuple[Check[DraBench], ...]] = (
    Check("P1", "prepares a claim", prepares),
    Check("P2", "answers the same when asked again", prepares_the_same_again),
    Check("P3", "writes its CDI files at every Prepare", mends_its_files),
    Check("P4", "prepares once for two calls at once", prepares_once_for_two),
    Check("P5", "remembers claims over its own restart", remembers_over_its_restart),
    Check("P6", "fails for one claim without failing the others", fails_for_one_claim_alone),
    Check("P7", "refuses a device it does not have", refuses_what_it_has_not),
    Check("P8", "refuses another claim of the same name", refuses_another_claim_of_the_name),
    Check("P9", "gives no device to two claims", gives_nothing_twice),
    Check("P10", "is not disturbed by cancelled calls", bears_a_cancelled_call),
    Check("P11", "answers for the request that has the device", answers_for_the_request),
    Check("P12", "writes CDI files that container runtimes take", writes_usable_cdi_files),
    Check("P13", "answers for the claims it is asked for, and no others", answers_for_what_is_asked),
    Check("P14", "prepares and unprepares within 2 s", prepares_soon),
    Check("P15", "leaves CDI files of others alone", leaves_foreign_files),
    Check("P16", "answers for the devices that are allocated now", answers_for_what_is_allocated_now),
    Check("U1", "unprepares a claim and leaves nothing", unprepares),
    Check("U2", "unprepares what it does not know", unprepares_what_it_does_not_know),
    Check("U3", "unprepares a claim that has been deleted", unprepares_without_the_claim),
    Check("U4", "unprepares one claim and leaves the others", leaves_the_other_claims),
    Check("U5", "unprepares a claim whose CDI files are gone", unprepares_without_its_files),
)
