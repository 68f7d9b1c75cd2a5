"""When a pool counts as lost: what one list of the provider says of it may be gone with the next."""

from dataclasses import replace

from accelet.provisioner.deciding.view import SliceRecord, SlicesView


def judge_pool(view: SlicesView) -> tuple[SliceRecord, str]:
    """The record with the time since which the list speaks against the pool, and why the pool is lost.

    The reason is empty while the pool is not lost. The list is believed once it has said the same for
    `lag_s`, and never while all machines of the slice are Ready and offer their chips.
    """
    record, asked_s = view.record, view.listed.asked_s
    if view.is_sound:
        return replace(record, doubted_s=0.0) if record.doubted_s else record, ""
    if not 0.0 < record.doubted_s <= asked_s:  # the first such list, or a clock was set back
        return replace(record, doubted_s=asked_s), ""
    is_believed = asked_s - record.doubted_s >= view.times.lag_s and not view.is_whole
    return record, why_against(view) if is_believed else ""


def why_against(view: SlicesView) -> str:
    """What the list says against the pool of the present attempt."""
    pool = view.pool
    if pool is None:
        return f"the pool {view.record.pool} is gone"
    if pool.failure is not None:
        return pool.failure.sentence
    if pool.state == "deleting":
        return f"the pool {pool.name} is being deleted"
    return f"the pool {pool.name} failed"


def doubt_of(view: SlicesView, record: SliceRecord) -> str:
    """What is said of a slice that works although the list speaks against its pool; else empty."""
    is_old = 0.0 < record.doubted_s <= view.listed.asked_s - view.times.lag_s
    if view.is_sound or not is_old or not view.is_whole:
        return ""
    return f"{why_against(view)[:700]}; all of its machines are Ready, so that it is kept"
