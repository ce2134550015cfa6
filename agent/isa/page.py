"""The report as one self-contained page. Everything in it is escaped: kernel names and sources are hostile."""

from collections.abc import Sequence
from html import escape

from ridgeline.agent.isa.hot import Placed
from ridgeline.agent.isa.section import Section
from ridgeline.agent.isa.table import header, listing, rows
from ridgeline.sandbox.profiles.isa.report import Inspected
from ridgeline.sandbox.profiles.isa.values import IsaFinding

STYLE = (
    "body{font:14px/1.5 sans-serif;margin:2em;max-width:110em}table{border-collapse:collapse}"
    "td,th{padding:.15em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}"
    "pre,code,.code td{font-family:monospace;font-size:12px;white-space:pre}.hot{background:#fff3d6}"
    ".time{background:#f7c7b8}.code td{border:0;padding:0 .8em}.against{color:#a40000}"
)


def page(told: Sequence[Section]) -> str:
    """HTML of each kernel's table, differences, notes and listings."""
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{escape(', '.join(one.kernel for one in told))}</title>"
        f"<style>{STYLE}</style></head><body>{''.join(_kernel(one) for one in told)}</body></html>\n"
    )


def _kernel(told: Section) -> str:
    reports = [one.report for one in told.found]
    listings = "".join(_listing(one, hot) for one, hot in told.placed)
    return (
        f"<h1>{escape(f'{told.kernel}: {reports[0].compiler}')}</h1>"
        f"<table>{_line(header(reports), 'th')}{''.join(_line(row, 'td') for row in rows(reports))}</table>"
        f"{_findings(told.findings)}{''.join(_notes(one) for one in told.found)}{listings}"
    )


def _line(cells: Sequence[str], tag: str, style: str = "") -> str:
    inside = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f"<tr{f' class={style!r}' if style else ''}>{inside}</tr>"


def _findings(findings: Sequence[IsaFinding]) -> str:
    if not findings:
        return ""
    lines = "".join(_line((f.target, f.weight, f.text), "td", f.weight) for f in findings)
    return f"<h2>Against the other version</h2><table>{lines}</table>"


def _notes(one: Inspected) -> str:
    notes = [one.report.compiler, *one.report.notes]
    if one.report.occupancy is not None:
        notes.append(f"waves: {one.report.occupancy.source}")
    return f"<h2>{escape(one.report.target.arch)}</h2><p>{'<br>'.join(escape(note) for note in notes)}</p>"


def _listing(one: Inspected, hot: Placed | None) -> str:
    if one.code is None or one.report.shape is None:
        return ""
    shares = dict(hot.shares) if hot else {}
    lines = "".join(
        _line(row, "td", "time" if row[0] else "hot" if "*" in row[1] else "")
        for row in listing(one.code, one.report.shape.loops, shares)
    )
    head = f"<summary>{escape(one.report.target.arch)}: {one.report.shape.instructions} instructions</summary>"
    return f"<details>{head}<table class='code'>{lines}</table></details>"
