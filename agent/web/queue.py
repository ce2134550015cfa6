"""The approval queue as pages: what waits, one question with its evidence, and the answer."""

import getpass
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from ridgeline.agent.approvals import Waits
from ridgeline.agent.approving import Answer, asked, refuse_late, store
from ridgeline.agent.errors import UserError
from ridgeline.agent.evidence_pack import shown
from ridgeline.agent.wanted import next_of
from ridgeline.agent.web.catalogue import CORE, Catalogue
from ridgeline.agent.web.forms import NAME, source, words
from ridgeline.graph.documents.report_html_text import diff, markdown
from ridgeline.graph.errors import ArtifactLost
from ridgeline.graph.values import Artifact
from ridgeline.prompts.render import render
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.globs import matches

Choice = Literal["approve", "reject", "edit", "defer"]
MOST_FILES = 20
LARGEST_FILE = 300_000
"""Bytes of a file that is edited in a browser; larger ones are edited elsewhere and given to `ridgeline approve`."""
_CHANGED = re.compile(r"^\+\+\+ b/(.+)$", re.MULTILINE)


def waiting(catalogue: Catalogue, done: Choice | None = None, *, of: str | None = None, goes_on: bool = False) -> str:
    """The list, oldest first; `done`: what was just decided, `of` which campaign, and whether that now goes on."""
    found = catalogue.questions()
    answered = catalogue.known().get(of or "")
    return render(
        "web_queue.v1.html",
        waiting=found,
        done=done,
        of=of if answered else "",
        campaign=answered.name if answered else "",
        goes_on=goes_on,
        open=len(found),
        decided=[(name, next_of(str(catalogue.folder(name)), each)) for name, each in catalogue.decided()],
    )


def question(catalogue: Catalogue, id: str, key: str, *, goes_on: bool = False) -> str:
    """One question with its evidence and its forms. Raises UserError where it is not open."""
    folder = catalogue.folder(id)
    one = asked(folder, key)
    refuse_late(one)
    artifacts = ArtifactStore(folder)
    request = one.request
    change = shown(artifacts, request.diff) if request.diff else ""
    files, uneditable = _editable(catalogue, id, one, change)
    with CORE:
        sections = [(section.heading, markdown(section.text)) for section in request.sections]
    return render(
        "web_question.v1.html",
        id=id,
        request=request,
        goes_on=goes_on,
        sections=sections,
        diff=diff(change) if change and not request.options else "",
        options=[(one, diff(shown(artifacts, one.diff)) if one.diff else "") for one in request.options],
        by=getpass.getuser(),
        files=list(files.items()),
        uneditable=uneditable,
        open=len(catalogue.questions()),
    )


def decide(catalogue: Catalogue, id: str, key: str, form: Mapping[str, str], *, goes_on: bool = False) -> Choice:
    """Keep the answer of a form. Raises UserError for an answer that is none, or that came late."""
    folder = catalogue.folder(id)
    one = asked(folder, key)
    by, reason = words(form, "by", NAME), words(form, "reason")
    if not by:
        raise UserError("say who decides: it goes into the record")
    with tempfile.TemporaryDirectory(prefix="ridgeline-edit-") as place:
        answer = _answer(catalogue, id, one, form, by=by, reason=reason, place=Path(place))
        return store(folder, one, answer, goes_on=goes_on)


def _answer(
    catalogue: Catalogue, id: str, one: Waits, form: Mapping[str, str], *, by: str, reason: str, place: Path
) -> Answer:
    match form.get("action"):
        case "approve":
            return Answer(yes=True, end=words(form, "end"), round=_round(form), reason=reason, by=by)
        case "reject" if reason:
            return Answer(reject=reason, end=words(form, "end"), by=by)
        case "reject":
            raise UserError("say why not: the planner learns from it")
        case "defer":
            return Answer(defer=reason, by=by)
        case "edit":
            _write_edits(catalogue, id, one, form, place)
            return Answer(edit=place, reason=reason, by=by)
        case _:
            raise UserError("choose one of approve, reject, edit and defer")


def _round(form: Mapping[str, str]) -> int | None:
    """Which of several measured changes was chosen; None where there is one."""
    given = form.get("round", "")
    if given and not (given.isascii() and given.isdigit() and len(given) < 7):
        raise UserError("choose one of the measured changes")
    return int(given) if given else None


def _write_edits(catalogue: Catalogue, id: str, one: Waits, form: Mapping[str, str], place: Path) -> None:
    """The files of the form under the names that the campaign gave them: a form chooses no path."""
    request = one.request
    change = shown(ArtifactStore(catalogue.folder(id)), request.diff) if request.diff else ""
    files, uneditable = _editable(catalogue, id, one, change)
    if not files:
        raise UserError(uneditable or f"a {request.gate} has no code to edit")
    edited = {
        name: source(form[f"file-{n}"], before) for n, (name, before) in enumerate(files.items()) if f"file-{n}" in form
    }
    if len(edited) != len(files):
        raise UserError("some of the files are not in the form; open the page again")
    if edited == files:
        raise UserError("nothing was edited; approve it as it is, or edit it")
    for name, text in edited.items():
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())


def _editable(catalogue: Catalogue, id: str, one: Waits, change: str) -> tuple[dict[str, str], str]:
    """Text of the files that may be edited here, by path; or why none may."""
    history = catalogue.whole(id).history
    if history is None or one.request.gate != "change":
        return {}, ""
    globs = history.contract.editable_globs
    chosen = [file for file in one.request.snapshot if matches(file.name, globs) and _inside(file.name)]
    folder = PurePosixPath(history.opened.contract_path).parent
    rest = {name for name in _CHANGED.findall(change) if name not in {str(folder / file.name) for file in chosen}}
    elsewhere = "; edit a checkout and give it to `ridgeline approve --edit`"
    if rest:
        return {}, f"this change touches files that cannot be edited here{elsewhere}"
    if not chosen or len(chosen) > MOST_FILES or any(file.size > LARGEST_FILE for file in chosen):
        return {}, f"the sources cannot be edited here: none are stored, or too much{elsewhere}"
    store_of = ArtifactStore(catalogue.folder(id))
    try:
        return {file.name: _text(store_of, file) for file in chosen}, ""
    except (ArtifactLost, UnicodeDecodeError):
        return {}, f"the sources cannot be edited here: lost, or not text{elsewhere}"


def _text(artifacts: ArtifactStore, file: Artifact) -> str:
    return artifacts.get(file).decode()


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and name != ""
