"""Slices that are ready and that nobody uses: told after a while, and given back if the settings say so."""

from dataclasses import replace

from accelet.provisioner.deciding.retire import left
from accelet.provisioner.deciding.view import SliceRecord, SlicesView


def note_use(view: SlicesView, record: SliceRecord) -> SliceRecord:
    """The record with since when a ready slice has no pods, and a sentence once that lasts for `unused_s`."""
    is_idle = record.phase == "Ready" and not any(node.has_pods for node in view.nodes_of(record.pool))
    if not is_idle:
        return replace(record, idle_s=0.0, unused="") if record.idle_s or record.unused else record
    idle_s = record.idle_s or view.now_s
    if left(view, idle_s, view.times.unused_s) > 0:
        is_noted = (record.idle_s, record.unused) == (idle_s, "")
        return record if is_noted else replace(record, idle_s=idle_s, unused="")
    unused = (
        f"no pod has run on it for {view.times.unused_s / 60:.0f} min: its pods may select other nodes, wait "
        "at a gate, or not be made. kubectl describe pod says why they are not on its nodes"
    )
    return replace(record, idle_s=idle_s, unused=unused)


def use_left_s(view: SlicesView, record: SliceRecord) -> float | None:
    """After how many seconds a slice without pods is told of next, or given back; None for never."""
    if not record.idle_s:
        return None
    times = view.times
    waits_s = [
        wait_s
        for after_s in (times.unused_s, times.release_unused_s)
        if after_s is not None and (wait_s := left(view, record.idle_s, after_s)) > 0
    ]
    return min(waits_s, default=None)


def why_released(view: SlicesView) -> str:
    """Why a ready slice is given back though its job wants it, empty if it is not.

    No slice of its set has pods then: those of a job that runs are not taken from it one by one. If pods come
    to one of them before the pool is closed, or are seen late, the job has all of them again.
    """
    record, after_s = view.record, view.times.release_unused_s
    if record.is_lapsed:
        has_pods = record.phase == "Releasing" and any(node.has_pods for node in view.nodes_of(record.pool))
        return "" if has_pods or not view.rest.is_unused else _say(after_s)
    if after_s is None or not record.unused or left(view, record.idle_s, after_s) > 0:
        return ""
    return _say(after_s) if view.rest.is_unused else ""


def _say(after_s: float | None) -> str:
    lasted = "" if after_s is None else f" for {after_s / 60:.0f} min"
    return f"no pod ran on it{lasted}, so it is given back: delete this SliceRequest to have it made again"
