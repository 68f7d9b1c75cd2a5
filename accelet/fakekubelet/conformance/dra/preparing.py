"""Whether claims are prepared and unprepared so that a kubelet may repeat, cancel and forget."""

import asyncio
from typing import Final

from accelet.fakekubelet.claims.driverclient import ClaimRef
from accelet.fakekubelet.claims.view import DriverView
from accelet.fakekubelet.conformance.bench import PATIENCE_S, Check, FailedError, SkippedError
from accelet.fakekubelet.conformance.dra.bench import NAMESPACE, DraBench
from accelet.fakekubelet.faults import GiveUp
from accelet.fakekubelet.services.plugin import CallError

_NOBODY: Final = ClaimRef(NAMESPACE, "nobody", "5f1d0f4e-0000-4000-8000-000000000009")


async def prepares(bench: DraBench) -> str:
    view = await bench.ready()
    ref, wanted = bench.claim(view), bench.device(view)
    answer = await bench.asked(view, ref)
    if answer.error:
        raise FailedError(f"it refused the claim of one of its devices: {answer.error}")
    told = {(device.pool, device.device) for device in answer.devices}
    if told != {(wanted["pool"], wanted["device"])}:
        raise FailedError(f"the claim has {wanted['device']} of {wanted['pool']}, and it answered {told}")
    if missing := bench.missing(answer):
        raise FailedError(missing)
    return f"{len(answer.devices)} devices, which the runtime finds"


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
    return "its CDI files are back"


async def prepares_once_for_two(bench: DraBench) -> str:
    view = await bench.ready()
    ref = bench.claim(view)
    answers = await asyncio.gather(bench.asked(view, ref), bench.asked(view, ref))
    for answer in answers:
        if answer.error:
            raise FailedError(f"two calls at once for one claim: {answer.error}")
        if missing := bench.missing(answer):
            raise FailedError(missing)
    return "two calls at once"


async def remembers_over_its_restart(bench: DraBench) -> str:
    view = await bench.ready()
    before = set(bench.cdi_files())
    if await _is_left(bench, view):
        raise SkippedError("Unprepare leaves files also without a restart (see U1)")
    ref = bench.claim(view)
    await bench.prepared(view, ref)
    registrations = view.registrations
    await bench.plugin.kill()
    await bench.launch()
    await view.connected(times=registrations + 1, timeout_s=PATIENCE_S)
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
    if "shareID" in bench.device(view):
        raise SkippedError("its first device may be shared")
    await bench.prepared(view, bench.claim(view))
    bench.kubelet.faults.prepare.inject(GiveUp(PATIENCE_S), times=1)  # it may wait for the device
    try:
        answers = await view.client.prepare([bench.claim(view, "two")])
    except CallError:
        return "it waits for the device"
    (answer,) = answers.values()
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
    Check("U1", "unprepares a claim and leaves nothing", unprepares),
    Check("U2", "unprepares what it does not know", unprepares_what_it_does_not_know),
    Check("U3", "unprepares a claim that has been deleted", unprepares_without_the_claim),
)
