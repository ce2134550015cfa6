"""Macros and symbols that protected sources would take from a change, in memory and in a real repository."""

from pathlib import PurePosixPath

import pytest

from ridgeline.graph.ports import CandidateCommit
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.audit.examine import find_added
from ridgeline.sandbox.audit.shared import find_shared
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.worktree import GitWorkspace
from tests.builders import make_contract
from tests.repositories import AT, make_repository

HEADER = "#pragma once\n#define TILE 16\nvoid matmul(const float *a, float *c, int n);\n"
KERNEL = '#include "kernel.h"\nvoid matmul(const float *a, float *c, int n) { c[0] = a[0]; }\n'
BEFORE = {"src/kernel.h": HEADER, "src/kernel.c": KERNEL}
TEST = """#include <stdio.h>
#include "kernel.h"
#include "ref.h"
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* never a word of `quiet` */
int main(void) { float a[4], c[4], r[4]; matmul(a, c, TILE); matmul_ref(a, r, 4); int lost = 0;
  if (worst(c, r, 4) > 1e-4f) lost = MAX(1, 2); report("done"); return lost; }
"""
PROTECTED = {
    "test.c": TEST,
    "ref.h": "float worst(const float *g, const float *w, int n);\nvoid matmul_ref(const float *a, float *c, int n);\n",
    "other.c": "int helper(void) { return unrelated; }\n",
}


def rules(after, before=BEFORE, protected=PROTECTED):
    return [(one.path, one.rule, one.severity) for one in find_shared(before, after, protected)]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("#define worst(g, w, n) 0.0f", "replaced-judge"),
        ("#define matmul_ref matmul", "replaced-judge"),
        ("#define return if (0) return", "replaced-judge"),
        ("#define lost won", "replaced-judge"),
        ("#define TILE 32", "shared-macro"),
        ("#define matmul matmul_fast", "shared-macro"),
        ("#define MAX(a, b) (a)", None),  # the test's own comes last
        ("#define quiet 1", None),
        ("#define unrelated 1", None),  # used by a file that does not include it
        ("#define SIMD_WIDTH 8", None),
    ],
)
def test_a_macro_counts_where_a_protected_source_includes_it(line, rule):
    found = rules({"src/kernel.h": f"{HEADER.replace('#define TILE 16', '')}{line}\n"})
    severity = "routes" if rule == "shared-macro" else "convicts"
    assert found == ([("src/kernel.h", rule, severity)] if rule else [])


def test_it_counts_through_other_headers_and_not_in_the_kernels_own_file():
    deeper = {"src/kernel.h": f'{HEADER}#include "deep.h"\n', "src/deep.h": "#define worst(g, w, n) 0\n"}
    assert ("src/deep.h", "replaced-judge", "convicts") in rules(deeper)
    assert rules({"src/kernel.c": f"#define worst(g, w, n) 0\n{KERNEL}"}) == []


def test_a_field_of_the_clocks_answer_is_a_clock():
    timed = {"bench.c": '#include "kernel.h"\nlong now(void) { return t.ns_field + t.tv_nsec; }\n'}
    assert rules({"src/kernel.h": f"{HEADER}#define tv_nsec tv_sec\n"}, protected=timed)[0][1] == "replaced-clock"


@pytest.mark.parametrize(
    ("path", "text", "convicted"),
    [
        ("src/kernel.c", "int report(const char *s) { return 0; }\n", True),  # a library's, until now
        ("src/kernel.c", "static int report(const char *s) { return 0; }\n", False),
        ("src/kernel.c", "int helper(void) { return 0; }\n", False),  # the harness has its own
        ("src/kernel.c", "int rows(const float *a) { return 0; }\n", False),
        ("src/more.cpp", "int report(const char *s) { return 0; }\n", False),
        ("src/more.cpp", 'extern "C" int report(const char *s) { return 0; }\n', True),
    ],
)
def test_a_function_that_the_harness_got_from_elsewhere(path, text, convicted):
    found = rules({path: BEFORE.get(path, "") + text})
    assert [rule for _, rule, _ in found] == (["replaced-judge"] if convicted else [])


def test_a_static_function_of_a_header_is_everybodys_who_includes_it():
    worse = "static inline float worst(const float *g, const float *w, int n) { return 0; }\n"
    assert rules({"src/kernel.h": HEADER + worse}) == [("src/kernel.h", "replaced-judge", "convicts")]
    assert rules({"src/kernel.c": KERNEL + worse}) == []
    assert rules({"src/kernel.h": f"{HEADER}static inline int rows(int n) {{ return n; }}\n"}) == []
    assert rules({"src/kernel.h": HEADER + worse}, before={**BEFORE, "src/kernel.h": HEADER + worse}) == []


@pytest.mark.parametrize("path", ["src/features.h", "src/bits/types/clockid_t.h", "src/time.h", "conftest.py"])
def test_a_new_file_is_judged_by_its_place(path):
    assert [one.rule for one in find_added({}, {path: "\n"})] == ["shadowed-import"]
    assert find_added({path: ""}, {path: "\n"}) == ()


@pytest.mark.parametrize(
    "include", ['#include "tiles.txt"', '#define F "tiles.txt"\n#include F', "#include STR(tiles.txt)"]
)
def test_a_file_of_any_name_is_read_as_c_from_when_it_is_included(include):
    clock = "int clock_gettime(int id, void *t) { return 0; }\n#define worst(g, w, n) 0\n"
    header = {"src/kernel.h": f"{HEADER}{include}\n"}
    both = {**header, "src/tiles.txt": clock}
    assert [one.rule for one in find_added(BEFORE, both)] == ["replaced-clock"]
    assert find_added(BEFORE, {"src/tiles.txt": clock}) == ()
    there = {**BEFORE, "src/tiles.txt": clock}
    assert [(one.rule, one.path) for one in find_added(there, header)] == [("replaced-clock", "src/tiles.txt")]
    assert find_added({**there, **header}, {"src/tiles.txt": f"\n{clock}"}) == ()
    if "(" not in include and "#define" not in include:
        assert ("src/tiles.txt", "replaced-judge", "convicts") in rules(header, before=there)
        assert ("src/tiles.txt", "replaced-judge", "convicts") in rules(both)


@pytest.mark.parametrize(
    ("after", "known"),
    [
        ({"src/k.c": '#include "eval.h"\n', "src/eval.h": "#pragma once\n"}, True),
        ({"src/k.c": '#include "eval.h"\n'}, False),
        ({"src/k.c": '#include "../eval.h"\n', "src/eval.h": "#pragma once\n"}, False),
        (
            {
                "src/k.c": '#include "view.h"\nfloat *k(float *c) { return elem_ref(c, 1); }\n',
                "src/view.h": "static inline float *elem_ref(float *c, int i) { return c + i; }\n",
            },
            True,
        ),
        (
            {
                "src/k.c": "float *k(float *c) { return elem_ref(c, 1); }\n",
                "src/view.h": "static inline float *elem_ref(float *c, int i) { return c + i; }\n",
            },
            False,
        ),
        ({"src/k.c": "void k(float *c) { matmul_ref(c); }\n"}, False),
        ({"kern/op.py": "from .eval import horner\n", "kern/eval.py": "def horner(): return 1\n"}, True),
        ({"kern/op.py": "from kern.task import Tiles\n", "kern/task.py": "class Tiles: pass\n"}, True),
        ({"kern/op.py": "from task import Tiles\n", "kern/task.py": "class Tiles: pass\n"}, False),
        ({"kern/op.py": "from ..eval import horner\n", "kern/eval.py": "def horner(): return 1\n"}, False),
    ],
)
def test_names_of_the_candidates_own_files_are_not_the_references(after, known):
    assert [one.rule for one in find_added({}, after)] == ([] if known else ["reads-reference"])


def test_what_was_there_before_is_nobodys_change():
    worse = {**BEFORE, "src/kernel.h": f"{HEADER}#define worst(g, w, n) 0\n"}
    assert rules({"src/kernel.h": f"\n{worse['src/kernel.h']}"}, before=worse) == []
    assert rules({"src/kernel.h": None}) == []
    assert rules({"src/notes.txt": "#define worst 0\n"}) == []


def test_a_campaigns_workspace_reads_the_protected_sources(tmp_path):
    files = {f"op/{path}": text for path, text in {**BEFORE, **PROTECTED, "ridgeline.yaml": "contract: 1\n"}.items()}
    root = make_repository(tmp_path / "kernels", files)
    contract = make_contract(kernel_source=("src/kernel.c",), editable=("src/**",))
    campaign = root / "agent/workspace/c1"
    workspace = GitWorkspace(root, PurePosixPath("op"), campaign, contract, ArtifactStore(campaign))
    base = workspace.open("optimize/c1")

    def audit(text: str) -> list[str]:
        edits = (FileEdit(path="src/kernel.h", text=text),)
        done = workspace.apply(round=2, parent=base.commit, edits=edits, at=AT)
        assert isinstance(done, CandidateCommit)
        return [one.rule for one in done.audit]

    assert audit(f"{HEADER}#define worst(g, w, n) 0.0f\n") == ["replaced-judge"]
    assert audit(f"{HEADER}#define WIDTH 8\n") == []
