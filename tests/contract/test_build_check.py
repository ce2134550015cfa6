"""Building, formatting and correctness with real processes and a real repository."""

import time
from pathlib import Path

import pytest

from tests.rooms import OUTSIDE, open_room, script_contract

KERNEL = "#!/bin/sh\necho right\n"
FILES = {
    "kernel.sh": KERNEL,
    "test.sh": '#!/bin/sh\nif [ "$(./kernel.sh)" = right ]; then echo PASS; else echo MISMATCH; exit 1; fi\n',
    "bench.sh": "#!/bin/sh\nexit 0\n",
    "build.sh": "#!/bin/sh\necho kernel.c:1: warning: unused\nmkdir -p out\ncp kernel.sh out/built\necho >> out/log\n",
    "format.sh": '#!/bin/sh\nfor f in "$@"; do sed -i "s/  */ /g" "$f"; done\necho touched >> test.sh\n',
    "broken_format.sh": "#!/bin/sh\necho boom >&2\nexit 3\n",
}
REBUILD = {"rebuild": {"required": True, "command": ("./build.sh",)}}


@pytest.fixture
def room(make_repository, tmp_path: Path):
    def make(files=None, **fields):
        repository = make_repository({**FILES, **(files or {})})
        return open_room(repository, tmp_path / "campaign", script_contract(**fields))

    return make


@pytest.mark.feature("F015")
def test_nothing_is_built_when_nothing_needs_building(room):
    here = room()
    result = here.builder.build(here.base)
    assert result.ok
    assert result.exit is None


@pytest.mark.feature("F015")
def test_a_commit_is_built_once_and_its_warnings_are_kept(room):
    here = room(**REBUILD)
    first, second = here.builder.build(here.base), here.builder.build(here.base)
    assert first.ok
    assert first.exit is not None
    assert first.warnings == ("kernel.c:1: warning: unused",)
    assert second.exit is None
    assert len((here.trees.at(here.base) / "out/log").read_text().splitlines()) == 1


CUDA = "// 100\n"
MIXED = {
    "kernel.sh": "#!/bin/sh\ncat lib/built/kernel.so; cat launch.py\n",
    "csrc/k.cu": CUDA,
    "launch.py": "blocks = 1\n",
    "build.sh": "#!/bin/sh\ngrep -q broken csrc/k.cu && exit 1\nmkdir -p lib/built\ncp csrc/k.cu lib/built/kernel.so\n"
    "ln -s kernel.so lib/built/kernel.so.1\necho >> lib/log\n",
    ".gitignore": "lib/\n",
}
MIXED_CONTRACT = {
    "kernel_source": ("csrc/k.cu", "launch.py"),
    "rebuild": {"required": True, "command": ("./build.sh",), "files": ("csrc/**", "build.sh")},
}


@pytest.mark.feature("F015")
def test_what_an_edit_touches_decides_whether_it_is_built(room):
    here = room(MIXED, **MIXED_CONTRACT)
    assert here.builder.build(here.base).exit is not None
    host, device = here.candidate({"launch.py": "blocks = 2\n"}), here.candidate({"csrc/k.cu": "// 120\n"})
    for commit, built, kernel, launch in (
        (host, False, CUDA, "blocks = 2\n"),
        (device, True, "// 120\n", "blocks = 1\n"),
    ):
        result = here.builder.build(commit)
        folder = here.trees.at(commit)
        assert (result.ok, result.exit is not None) == (True, built)
        assert ((folder / "lib/built/kernel.so").read_text(), (folder / "launch.py").read_text()) == (kernel, launch)
        assert (folder / "lib/built/kernel.so.1").readlink() == Path("kernel.so")
        assert len((folder / "lib/log").read_text().splitlines()) == 1
        assert here.commands.broken(commit) == ()
    broken = here.builder.build(here.candidate({"csrc/k.cu": "// broken\n"}))
    assert (broken.ok, broken.exit.returncode) == (False, 1)


@pytest.mark.feature("F015")
@pytest.mark.parametrize(
    ("spoil", "edit"),
    [
        (lambda tree: (tree / "lib/built/kernel.so").write_text("// 999\n"), {"launch.py": "blocks = 2\n"}),
        (lambda tree: None, {"launch.py": "blocks = 2\n", "csrc/new.h": "// one more\n"}),
    ],
)
def test_a_build_is_taken_over_only_whole_and_only_for_the_same_files(room, spoil, edit):
    contract = {**MIXED_CONTRACT, "editable": ("csrc/**", "launch.py")}
    here = room(MIXED, **contract)
    here.builder.build(here.base)
    spoil(here.trees.at(here.base))
    candidate = here.candidate(edit)
    assert here.builder.build(candidate).exit is not None
    assert (here.trees.at(candidate) / "lib/built/kernel.so").read_text() == CUDA


@pytest.mark.feature("F015")
@pytest.mark.parametrize("build", ["echo 'blocks = 9' > launch.py", "mkdir -p lib; ln -s $PWD/csrc lib/csrc"])
def test_a_build_that_cannot_be_moved_is_made_anew(room, build):
    here = room({**MIXED, "build.sh": f"#!/bin/sh\n{build}\n"}, **MIXED_CONTRACT)
    here.builder.build(here.base)
    assert here.builder.build(here.candidate({"launch.py": "blocks = 2\n"})).exit is not None


def test_best_and_candidate_stand_built_side_by_side(room):
    here = room(**REBUILD)
    candidate = here.candidate({"kernel.sh": KERNEL + "# faster\n"})
    folders = here.builder.ensure_built(here.base), here.builder.ensure_built(candidate)
    assert [(folder / "out/built").read_text() for folder in folders] == [KERNEL, KERNEL + "# faster\n"]


def test_a_failed_build_says_what_the_compiler_said(room):
    here = room({"build.sh": "#!/bin/sh\necho 'kernel.c:3: error: expected ;'\nexit 1\n"}, **REBUILD)
    result = here.builder.build(here.base)
    assert not result.ok
    assert "expected ;" in result.exit.output
    check = here.checker.check(here.base, purpose="round-2")
    assert (check.kind, "does not build" in check.detail) == ("crash", True)
    timed = here.timer.benchmark(here.base, level="quick", source="quick", shapes=(), repeat=0, purpose="round-2")
    assert (timed.kind, timed.reason) == ("benchmark_failed", "crash")


def test_a_build_that_changes_evaluation_files_is_undone_and_said(room):
    here = room({"build.sh": "#!/bin/sh\necho 'exit 0' > test.sh\n"}, **REBUILD)
    result = here.builder.build(here.base)
    assert result.ok
    assert "test.sh" in result.warnings[0]
    assert (here.trees.at(here.base) / "test.sh").read_text() == FILES["test.sh"]


def test_the_formatter_changes_the_changed_files_only(room):
    here = room(format_command=("./format.sh",))
    candidate = here.candidate({"kernel.sh": "#!/bin/sh\necho    right\n"})
    formatting = here.builder.format(candidate, ("kernel.sh", "gone.sh"))
    assert [(edit.path, edit.text) for edit in formatting.edits] == [("kernel.sh", "#!/bin/sh\necho right\n")]
    assert (here.trees.at(candidate) / "kernel.sh").read_text() == "#!/bin/sh\necho    right\n"
    assert here.trees.restore(candidate) == ()


def test_a_formatter_that_fails_or_is_not_there_makes_no_edits(room):
    here = room(format_command=("./broken_format.sh",))
    formatting = here.builder.format(here.base, ("kernel.sh",))
    assert formatting.edits == ()
    assert "boom" in formatting.detail


def test_no_formatter_no_edits(room):
    here = room()
    assert here.builder.format(here.base, ("kernel.sh",)).edits == ()


@pytest.mark.parametrize(
    ("kernel", "kind", "says"),
    [
        (KERNEL, "pass", "PASS"),
        ("#!/bin/sh\necho wrong\n", "incorrect", "MISMATCH"),
    ],
)
def test_right_and_wrong(room, kernel, kind, says):
    here = room()
    commit = here.candidate({"kernel.sh": kernel}) if kernel != KERNEL else here.base
    result = here.checker.check(commit, purpose="round-2")
    assert (result.kind, result.passed, result.commit) == (kind, kind == "pass", commit)
    assert says in result.detail


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("exit 3", "crash"),
        ("kill -SEGV $$", "crash"),
        ("echo AssertionError: off by one; exit 1", "incorrect"),
        ("echo not close; kill -ABRT $$", "incorrect"),
        ("echo failed to open the library; exit 1", "crash"),
        ("echo FAIL mentioned but fine; exit 0", "pass"),
    ],
)
def test_a_test_that_breaks_is_no_wrong_number(room, script, kind):
    here = room({"test.sh": f"#!/bin/sh\n{script}\n"})
    assert here.checker.check(here.base, purpose="p").kind == kind


@pytest.mark.feature("F080")
def test_a_hanging_test_is_killed_with_all_it_started(room, tmp_path: Path, monkeypatch):
    alive = tmp_path / "notes" / "alive"
    alive.parent.mkdir()
    monkeypatch.setenv(OUTSIDE, str(alive.parent))
    here = room(
        {"test.sh": f"#!/bin/sh\n(while true; do date +%N > {alive}; sleep 0.1; done) &\nsleep 60\n"},
        timeouts={"test_s": 1},
        pass_environment=(OUTSIDE,),
    )
    began = time.monotonic()
    result = here.checker.check(here.base, purpose="p")
    assert result.kind == "timeout"
    assert time.monotonic() - began < 8
    last = alive.read_text()
    time.sleep(0.4)
    assert alive.read_text() == last


@pytest.mark.feature("F099")
def test_a_candidate_that_rewrites_the_test_is_caught_and_undone(room):
    here = room()
    candidate = here.candidate({"kernel.sh": "#!/bin/sh\nprintf '#!/bin/sh\\nexit 9\\n' > bench.sh\necho right\n"})
    result = here.checker.check(candidate, purpose="p")
    assert result.kind == "tampered"
    assert "bench.sh" in result.detail
    assert (here.trees.at(candidate) / "bench.sh").read_text() == FILES["bench.sh"]


@pytest.mark.feature("F099")
def test_a_test_changed_between_runs_is_put_back_before_it_judges(room):
    here = room()
    wrong = here.candidate({"kernel.sh": "#!/bin/sh\necho wrong\n"})
    (here.trees.at(wrong) / "test.sh").write_text("#!/bin/sh\nexit 0\n")
    assert here.checker.check(wrong, purpose="p").kind == "incorrect"


CSV = "echo 'label,rel_err' > $1; echo 'a,{}' >> $1"


@pytest.mark.feature("F100")
@pytest.mark.parametrize(
    ("script", "rule", "kind"),
    [
        (CSV.format("0.001"), {"kind": "rel_err"}, "pass"),
        (CSV.format("0.01"), {"kind": "rel_err"}, "incorrect"),
        (CSV.format("nan"), {"kind": "rel_err"}, "incorrect"),
        (CSV.format("small"), {"kind": "rel_err"}, "incorrect"),
        (CSV.format("0.001") + "; exit 1", {"kind": "rel_err"}, "crash"),
        ("true", {"kind": "rel_err"}, "crash"),
        ("echo label,rel_err > $1", {"kind": "rel_err"}, "crash"),
        ("echo label,other > $1; echo a,0 >> $1", {"kind": "rel_err"}, "crash"),
        (CSV.format("3"), {"kind": "column", "column": "rel_err", "op": "<=", "threshold": 3}, "pass"),
        (CSV.format("3"), {"kind": "column", "column": "rel_err", "op": "<", "threshold": 3}, "incorrect"),
    ],
)
def test_column_exit_code_and_csv_are_all_needed(room, script, rule, kind):
    here = room({"test.sh": f"#!/bin/sh\n{script}\n"}, test_command=("./test.sh", "{csv}"), correctness=rule)
    assert here.checker.check(here.base, purpose="p").kind == kind


@pytest.mark.parametrize(
    ("output", "rule", "kind"),
    [
        ("snr=31.5 dB", {"kind": "snr"}, "pass"),
        ("snr=inf", {"kind": "snr"}, "pass"),
        ("snr: 25.0", {"kind": "snr"}, "incorrect"),
        ("psnr=40", {"kind": "snr"}, "crash"),
        ("allclose=True", {"kind": "allclose"}, "pass"),
        ("allclose=True\nallclose=False", {"kind": "allclose"}, "incorrect"),
    ],
)
def test_numbers_may_be_printed_instead(room, output, rule, kind):
    here = room({"test.sh": f"#!/bin/sh\nprintf '{output}\n'\n"}, correctness=rule)
    assert here.checker.check(here.base, purpose="p").kind == kind


@pytest.mark.feature("F082")
@pytest.mark.parametrize(
    ("script", "rule", "rel_err"),
    [
        (CSV.format("0.001") + "; echo 'b,0.004' >> $1", {"kind": "rel_err"}, 0.004),
        (CSV.format("0.02"), {"kind": "rel_err"}, 0.02),
        ("echo label,out_snr > $1; echo a,40 >> $1; echo b,60 >> $1", {"kind": "snr", "column": "out_snr"}, 0.01),
        (CSV.format("0.25"), {"kind": "exit"}, 0.25),
        ("echo label,other > $1; echo a,0 >> $1", {"kind": "exit"}, None),
        (CSV.format("nan"), {"kind": "rel_err"}, None),
    ],
)
def test_the_largest_relative_error_that_a_test_tells_is_kept(room, script, rule, rel_err):
    here = room({"test.sh": f"#!/bin/sh\n{script}\n"}, test_command=("./test.sh", "{csv}"), correctness=rule)
    assert here.checker.check(here.base, purpose="p").rel_err == rel_err


def test_the_full_suite_runs_only_where_there_is_one(room):
    here = room()
    assert here.checker.suite(here.base) is None


@pytest.mark.feature("F065")
def test_the_full_suite_is_judged_alike(room):
    here = room({"all.sh": "#!/bin/sh\nexit 4\n"}, full_test_command=("./all.sh",))
    result = here.checker.suite(here.base)
    assert result is not None
    assert result.kind == "crash"


BUILT_KERNEL = "#!/bin/sh\ncat built.txt\n"
BUILD = {"build.sh": "#!/bin/sh\necho right > built.txt\necho >> count.log\n", "kernel.sh": BUILT_KERNEL}


@pytest.mark.feature("F079", "F099")
@pytest.mark.parametrize("victim", ["built.txt", "kernel.sh"])
def test_a_run_may_not_replace_what_was_built(room, victim):
    here = room(BUILD, **REBUILD)
    candidate = here.candidate({"kernel.sh": f"{BUILT_KERNEL}echo fast > {victim}\n"})
    first = here.checker.check(candidate, purpose="p")
    assert (first.kind, victim in first.detail) == ("tampered", True)
    second = here.checker.check(candidate, purpose="p")  # on a tree made anew, not on what the first run left
    assert second.kind == "tampered"


def test_a_tree_changed_between_runs_is_built_again(room):
    here = room(BUILD, **REBUILD)
    assert here.checker.check(here.base, purpose="p").kind == "pass"
    (here.trees.at(here.base) / "built.txt").write_text("wrong\n")
    assert here.checker.check(here.base, purpose="p").kind == "pass"


def test_a_third_version_takes_a_slot_and_the_first_is_built_again_quietly(room, caplog):
    here = room(BUILD, **REBUILD)
    others = [here.candidate({"kernel.sh": f"{BUILT_KERNEL}# {n}\n"}) for n in range(2)]
    kinds = [here.checker.check(commit, purpose="p").kind for commit in (here.base, *others, here.base)]
    assert kinds == ["pass"] * 4
    assert caplog.text == ""


def test_files_that_a_run_adds_or_writes_again_alike_are_its_own_business(room):
    test = FILES["test.sh"] + "echo >> results.log\ncp kernel.sh copy && mv copy kernel.sh\nmkdir -p __pycache__\n"
    here = room({**BUILD, "test.sh": test}, **REBUILD)
    kinds = [here.checker.check(here.base, purpose="p").kind for _ in range(2)]
    assert kinds == ["pass", "pass"]
    assert len((here.trees.at(here.base) / "count.log").read_text().splitlines()) == 1


def test_sources_that_need_no_build_are_sealed_too(room):
    here = room()
    candidate = here.candidate({"kernel.sh": "#!/bin/sh\necho right\necho 'echo cached' >> kernel.sh\n"})
    assert here.checker.check(candidate, purpose="p").kind == "tampered"
