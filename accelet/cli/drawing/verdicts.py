"""What `accelet doctor` says to people."""

from collections.abc import Mapping

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import styled
from accelet.doctor.examined import Examination
from accelet.doctor.findings import Finding, Level

_WORDS: Mapping[Level, tuple[str, str]] = {
    "wrong": ("wrong", "red"),
    "unseen": ("unseen", "yellow"),
    "note": ("note", "cyan"),
}
_WIDTH = 18


def print_examined(output: Output, examination: Examination) -> None:
    for one in examination.examined:
        output.line(styled(f"{one.kind} {one.name}".rstrip(), "bold"))
        for verdict in one.verdicts:
            if not verdict.findings and verdict.fine:
                output.line(styled("  ok      ", "green"), f"{verdict.check:<{_WIDTH}}", verdict.fine)
            for finding in verdict.findings:
                _print_finding(output, verdict.check, finding)
    unseen = f" {examination.unseen} could not be looked at." if examination.unseen else ""
    said = f"{examination.wrong} wrong." if examination.wrong else "Nothing wrong was found."
    output.line(said + unseen)


def _print_finding(output: Output, check: str, finding: Finding) -> None:
    word, style = _WORDS[finding.level]
    output.line(styled(f"  {word:<8}", style), f"{check:<{_WIDTH}}{finding.about}: {finding.reason}")
    if finding.quote:
        output.line(f"          said:  {finding.quote}")
    if finding.cure:
        output.line(f"          cure:  {finding.cure}")
