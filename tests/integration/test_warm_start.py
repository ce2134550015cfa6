"""Warm start: the best version of an earlier campaign is a candidate of the first question, judged from nothing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.agent.campaign import wiring
from ridgeline.agent.campaign.champions import find_champions
from ridgeline.agent.campaign.folders import history
from ridgeline.agent.campaign.progress import SilentProgress
from ridgeline.agent.campaign.runner import StartRequest, start
from ridgeline.agent.contract_file import load
from ridgeline.agent.planner.context import Context
from ridgeline.graph.record import Champion
from ridgeline.graph.reports.final_report import render_final_report
from ridgeline.graph.reports.html import report_html
from ridgeline.graph.trial import Drafted, find_proposal
from ridgeline.graph.trial import find as find_stage
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.devices.machine import LocalDevice
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from tests.builders import make_limits
from tests.campaigns import Campaign, make_campaign
from tests.repositories import git, make_repository
from tests.text_project import files
from tests.world import SideBySide, TestDevice

TOLD = (
    "Best version of campaign {name}, 1.60x there, no candidate here"
    " (kernel.c: run has another signature there, or is missing)"
)
C_KERNEL = "int run(const float *x, float *y, int n) {{ return 0; }}\n// speed {speed}\n"


class Here(TestDevice):
    """The machine that runs the test."""

    def __init__(self, contract):
        self._device = LocalDevice(contract)

    def machine(self):
        return self._device.machine()


def make_project(root: Path) -> Path:
    """The text project with a kernel in C's name."""
    original = C_KERNEL.format(speed=100)
    project = {name: text.replace("kernel.txt", "kernel.c") for name, text in files(original).items()}
    project["kernel.c"] = project.pop("kernel.txt", original)
    repository = make_repository(root, project)
    (repository / "harness.py").chmod(0o755)
    git(repository, "commit", "-qam", "runs")
    return repository


class Reader(SideBySide):
    """Keeps what its page says of earlier campaigns."""

    def __init__(self, *scripts):
        super().__init__(*scripts)
        self.pages = []

    def propose(self, briefing):
        if not briefing.rounds:
            page = Context(briefing, budget=10_000, count=len, books=None, reader=None)
            self.pages.append(page._tips(10_000))
        return super().propose(briefing)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Folder of a concluded campaign of the text project's operator on this machine, which gained 60 %."""
    folder = tmp_path_factory.mktemp("text_f32_earlier")
    original, best = C_KERNEL.format(speed=100), C_KERNEL.format(speed=160)
    campaign = make_campaign(
        folder, best.rstrip(), limits=make_limits(max_rounds=1), kernel=original.rstrip(), target_op="text_f32"
    )
    campaign.ports = replace(campaign.ports, device=Here(campaign.request.contract))
    campaign.drive()
    for text in (original, best):
        ArtifactStore(folder).put("kernel.c", text.encode())
    return folder


def remember(earlier: Path, here: Path) -> tuple[Champion, ...]:
    """What a campaign of the same operator on the same machine finds of it; `here`: the folder of its originals."""
    opened = history(earlier).opened
    champions, problems = find_champions(opened.target, opened.machine, root=here, repository=here, memory=(earlier,))
    assert problems == ()
    return champions


def name_of(earlier: Path) -> str:
    """The campaign's name, which its folder need not have."""
    return history(earlier).opened.target.campaign


def begin(tmp_path: Path, *scripts, champions: tuple[Champion, ...], planner=SideBySide, **limits) -> Campaign:
    """A campaign of the scripted world that knows these champions, to its end."""
    tmp_path.mkdir(exist_ok=True)
    settings = make_limits(target_peak_fraction=None, max_restarts=0, max_rounds=len(scripts), **limits)
    campaign = make_campaign(tmp_path, planner=planner(*scripts), limits=settings)
    campaign.request = campaign.request.model_copy(update={"champions": champions})
    campaign.drive()
    return campaign


@pytest.fixture(scope="module")
def champions(earlier, tmp_path_factory):
    """The champion of that campaign, for a folder with the same original."""
    here = tmp_path_factory.mktemp("here")
    (here / "kernel.c").write_text(C_KERNEL.format(speed=100))
    return remember(earlier, here)


def test_run_finds_the_champion_says_so_and_judges_it_by_its_own_test(earlier, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: SideBySide("never asked"))
    repository = make_project(tmp_path / "warm")
    harness = repository / "harness.py"
    harness.write_text(harness.read_text().replace('"wrong" in', '"160" in'))
    git(repository, "commit", "-qam", "the reference is another one now")
    request = StartRequest(
        contract=load(repository),
        instruction="",
        limits=make_limits(max_rounds=1, looks=(1,), calibration_pairs=0, blocks=2, final_pairs=3, warm_start=True),
        planner="scripted",
        progress=SilentProgress(),
        memory=(earlier.parent,),
    )
    ended = start(request)
    line = f"warm start: champion of {name_of(earlier)} (1.60x there), judged again here\n"
    assert line in capsys.readouterr().err
    (first,) = history(Path(ended.dir)).rounds
    assert find_proposal(first.judged).champion == name_of(earlier)
    assert first.judged.verdict.reason == "incorrect"
    assert find_stage(first.judged, Drafted).edits == (FileEdit(path="kernel.c", text=C_KERNEL.format(speed=160)),)
    (repository / "kernel.c").write_text(C_KERNEL.format(speed=160))
    assert remember(earlier, repository) == (), "where the champion is the original, there is nothing to try"


def test_a_cold_campaign_has_only_what_its_planner_proposes(tmp_path):
    cold = begin(tmp_path, "speed 110", champions=())
    assert b"champion" not in (tmp_path / "ledger.jsonl").read_bytes()
    assert cold.history().rounds[0].judged.verdict.gain == pytest.approx(0.10, abs=0.02)


def test_the_report_tells_what_came_from_memory_and_what_is_new(earlier, champions, tmp_path):
    warm = begin(tmp_path, "never asked", "speed 176", champions=champions).history()
    assert [find_proposal(closed.judged).champion for closed in warm.rounds] == [name_of(earlier), ""]
    report = render_final_report(warm)
    assert f"- Champion of campaign `{name_of(earlier)}` (1.60x there, at least 1." in report
    assert "judged again here as round-2: kept, +" in report
    assert "- From memory: the kept rounds' own gains, multiplied: 1.60x" in report
    assert "- New here: the kept rounds' own gains, multiplied: 1.10x" in report
    assert "Warm start" in report_html(warm, diffs={})


def test_beside_the_planners_directions_the_best_one_is_kept_whoever_it_came_from(earlier, champions, tmp_path):
    both = begin(tmp_path / "slower", "speed 110", "speed 120", champions=champions, candidates=2).history()
    assert [find_proposal(closed.judged).champion for closed in both.rounds] == ["", name_of(earlier)]
    assert [closed.beside for closed in both.rounds] == [2, 2]
    assert [closed.accepted for closed in both.rounds] == [False, True]
    new = begin(tmp_path / "faster", "speed 190", "speed 120", champions=champions, candidates=2).history()
    assert [closed.judged.verdict.reason for closed in new.rounds] == ["faster", "outpaced"]
    alone = begin(tmp_path / "alone", None, None, champions=champions, candidates=2).history()
    assert [find_proposal(closed.judged).champion for closed in alone.rounds] == [name_of(earlier)], (
        "no direction is left"
    )


def test_what_is_about_something_else_is_not_offered(earlier, champions, tmp_path):
    opened = history(earlier).opened

    def look(target=opened.target, machine=opened.machine, memory=earlier):
        return find_champions(target, machine, root=tmp_path, repository=tmp_path, memory=(memory,))

    assert len(look()[0]) == 1
    assert look(target=opened.target.model_copy(update={"target_lang": "Triton"})) == ((), ())
    assert look(target=opened.target.model_copy(update={"target_op": "softmax_f32"})) == ((), ())
    assert look(machine=opened.machine.model_copy(update={"name": "Another Processor"})) == ((), ())
    shutil.copytree(earlier, tmp_path / "damaged")
    ledger = tmp_path / "damaged" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"speedup":1', '"speedup":9'))
    found, (problem,) = look(memory=tmp_path)
    assert found == ()
    assert problem.startswith("damaged: cannot be read for a warm start: ")


def test_a_champion_of_another_interface_is_text_on_the_page_alone(earlier, tmp_path):
    (tmp_path / "kernel.c").write_text(C_KERNEL.format(speed=100).replace("const float *x", "const double *x"))
    (champion,) = remember(earlier, tmp_path)
    assert champion.mismatch == "kernel.c: run has another signature there, or is missing"
    planner = Reader("speed 120")
    ended = begin(tmp_path / "other", "speed 120", champions=(champion,), planner=lambda *_: planner).history()
    assert [find_proposal(closed.judged).champion for closed in ended.rounds] == [""]
    assert [page.rstrip() for page in planner.pages] == [
        f"{TOLD.format(name=name_of(earlier))}; kernel.c:\n{C_KERNEL.format(speed=160).rstrip()}"
    ]
    assert "shown as text alone, since it cannot be tried here: kernel.c: run has" in render_final_report(ended)


def test_a_champion_that_is_wrong_now_is_refused_and_the_campaign_goes_on(earlier, champions, tmp_path):
    (champion,) = champions
    wrong = tuple(edit.model_copy(update={"text": f"{edit.text}// wrong\n"}) for edit in champion.files)
    hostile = champion.model_copy(update={"files": wrong})
    ended = begin(tmp_path, "never asked", "speed 130", champions=(hostile,))
    refused, kept = ended.history().rounds
    assert (find_proposal(refused.judged).champion, refused.judged.verdict.reason) == (name_of(earlier), "incorrect")
    assert (find_proposal(kept.judged).champion, kept.judged.verdict.reason) == ("", "faster")
    assert find_stage(refused.judged, Drafted).repairs == (), "nobody is asked to mend it"
    outside = champion.model_copy(update={"files": (FileEdit(path="bench.c", text="always fast\n"),)})
    ended = begin(tmp_path / "outside", "never asked", "speed 130", champions=(outside,))
    assert ended.verdicts() == ["refused_edit", "faster"]
