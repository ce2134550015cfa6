"""Tests that end early with exit code 0, and builds that rewrite what judges them: real git, real processes."""

import shutil
from pathlib import Path

import pytest

from ridgeline.graph.rules.early_end import explain_early_end, note_silent_test
from tests.rooms import open_room, script_contract

SHELL = {
    "kernel.sh": "echo right\n",
    "test.sh": """#!/bin/sh
echo "seed $$ in $PWD"
for n in 1 2 3; do
  out=$(. ./kernel.sh) || exit 9
  [ "$out" = right ] || { echo MISMATCH; exit 1; }
  echo "PASS n=$n"
done
last=1
. ./kernel.sh
echo "all 3 are right"
""",
    "bench.sh": "#!/bin/sh\nexit 0\n",
    "build.sh": "#!/bin/sh\nmkdir -p out\n. ./kernel.sh > out/log\ncp test.sh out/test.sh\n",
}
GCC = {
    "kernel.c": "int twice(int x) { return x + x; }\n",
    "test.c": """#include <stdio.h>
int twice(int);
int main(void) {
  for (int i = 0; i < 4; i++) {
    if (twice(i) != 2 * i) { printf("MISMATCH %d\\n", i); return 1; }
    printf("PASS %d at %p\\n", i, (void *)&i);
  }
  return 0;
}
""",
    "build.sh": "#!/bin/sh\nmkdir -p out\ngcc -O1 kernel.c test.c -o out/test\n",
    "test.sh": "#!/bin/sh\nexec out/test\n",
    "bench.sh": "#!/bin/sh\nexit 0\n",
}
BUILT = {"rebuild": {"required": True, "command": ("./build.sh",)}}
IN_C = {**BUILT, "kernel_source": ("kernel.c",)}


@pytest.fixture
def room(make_repository, tmp_path: Path):
    def make(files, **fields):
        return open_room(make_repository(files), tmp_path / "campaign", script_contract(**fields))

    return make


def outcome(here, kernel: str, path: str = "kernel.sh") -> str | None:
    """Why the candidate's passing test ended early, None when it did not."""
    original = here.checker.check(here.base, purpose="baseline")
    found = here.checker.check(here.candidate({path: kernel}), purpose="round-2")
    assert (original.kind, found.kind) == ("pass", "pass"), (original.detail, found.detail)
    return explain_early_end((original.printed,), found.printed)


@pytest.mark.parametrize(
    "kernel",
    ["echo right\n# faster\n", "echo right\n[ -z $last ] || echo one more line\n", "sleep 0.01\necho right\n"],
)
def test_an_honest_candidate_prints_all_that_the_original_does(room, kernel):
    assert outcome(room(SHELL), kernel) is None


@pytest.mark.parametrize("kernel", ["echo right\n[ -z $last ] || exit 0\n", "echo right\n[ -z $last ] || exec true\n"])
def test_a_script_that_leaves_early_with_0_is_found_out(room, kernel):
    assert "'all # are right'" in (outcome(room(SHELL), kernel) or "")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    "kernel",
    [
        "#include <stdlib.h>\nint twice(int x) { if (x) exit(0); return 0; }\n",
        "#include <unistd.h>\nint twice(int x) { if (x) _exit(0); return 0; }\n",
        '#include <unistd.h>\nint twice(int x) { if (x) execl("/bin/true", "true", (char *)0); return 0; }\n',
        "#include <unistd.h>\nstatic void last(void) { _exit(0); }\n"
        '__attribute__((section(".fini_array"), used)) static void (*at_end)(void) = last;\n'
        "int twice(int x) { return x ? 7 : 0; }\n",
    ],
    ids=["exit", "_exit", "exec", "fini"],
)
@pytest.mark.slow
def test_a_program_that_leaves_early_with_0_is_found_out(room, kernel):
    assert "'PASS # at #'" in (outcome(room(GCC, **IN_C), kernel, "kernel.c") or "")


def test_a_failing_test_whose_exit_code_is_turned_to_0_is_found_out(room):
    test = '#!/bin/sh\n. ./kernel.sh\n[ "$out" = right ] && echo "1 passed" || { echo "1 failed"; exit 1; }\n'
    here = room({**SHELL, "kernel.sh": "out=right\n", "test.sh": test})
    assert "'# failed'" in (outcome(here, "out=wrong\ntrap 'exit 0' EXIT\n") or "")


def test_a_silent_test_is_known_for_one(room):
    here = room({**SHELL, "test.sh": '#!/bin/sh\n[ "$(. ./kernel.sh)" = right ]\n'})
    found = here.checker.check(here.base, purpose="baseline")
    assert found.passed
    assert "prints nothing" in note_silent_test(found.printed)


def test_failed_tests_keep_no_lines(room):
    here = room(SHELL)
    assert here.checker.check(here.candidate({"kernel.sh": "echo wrong\n"}), purpose="p").printed is None


@pytest.mark.feature("F099")
def test_a_build_that_rewrites_the_test_is_told_now_and_when_it_is_asked_again(room):
    here = room(SHELL, **BUILT)
    assert here.builder.build(here.base).tampered == ()
    candidate = here.candidate({"kernel.sh": "[ -f out/test.sh ] || echo 'exit 0' > test.sh\necho right\n"})
    first = here.builder.build(candidate)
    assert (first.ok, first.tampered, sorted(first.touched)) == (True, ("test.sh",), ["test.sh"])
    assert (here.trees.at(candidate) / "test.sh").read_text() == SHELL["test.sh"]
    again = here.builder.build(candidate)
    assert (again.exit, again.tampered) == (None, ("test.sh",))
