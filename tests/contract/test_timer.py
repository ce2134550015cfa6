"""Benchmarks and comparisons with real processes: scripted times, real order, real files."""

import json
import math
import time
from pathlib import Path

import pytest

from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison
from tests.rooms import HEADER, OUTSIDE, open_room, script_contract

ROW = "small,8,PASS,1.5,0.01,0.20"
LARGE = "large,64,PASS,3.0,0.02,0.40"
PAIRED_HEADER = "label,block,slot,side,time_us"
KERNEL = "#!/bin/sh\nsleep 0.01\n"
PAIRED = """#!/bin/sh
# a b csv shapes blocks seed: side b takes what its kernel.time says, and so does a
a=$(cat $1/kernel.time); b=$(cat $2/kernel.time)
echo label,block,slot,side,time_us > $3
for label in $(echo $4 | tr , ' '); do
  i=0
  while [ $i -lt $5 ]; do
    if [ $(( ($6 + i) % 2 )) = 0 ]; then order="a b b a"; else order="b a a b"; fi
    slot=0
    for side in $order; do
      eval t=\\$$side
      echo $label,$i,$slot,$side,$t >> $3
      slot=$((slot + 1))
    done
    i=$((i + 1))
  done
done
"""


def bench(*lines: str, after: str = "") -> str:
    body = "".join(f"echo '{line}' >> $1\n" for line in lines)
    return f"#!/bin/sh\n{body}{after}\n"


@pytest.fixture
def room(make_repository, tmp_path: Path):
    def make(script: str = "#!/bin/sh\nexit 0\n", files=None, **fields):
        own = {"kernel.sh": KERNEL, "kernel.time": "100\n", "test.sh": "#!/bin/sh\n", "bench.sh": script}
        repository = make_repository({**own, **(files or {})})
        contract = script_contract(**{"kernel_source": ("kernel.sh", "kernel.time"), **fields})
        return open_room(repository, tmp_path / "campaign", contract)

    return make


def once(here, *, source="quick", shapes=(), repeat=0) -> Benchmark | BenchmarkFailed:
    return here.timer.benchmark(
        here.base, level="full", source=source, shapes=shapes, repeat=repeat, purpose="round 1/baseline"
    )


def pairs(here, candidate, *, best=None, shapes=("small",), first=0, count=2, blocks=3):
    return here.timer.compare(
        best=best or here.base,
        candidate=candidate,
        shapes=shapes,
        first_pair=first,
        pairs=count,
        blocks=blocks,
        purpose="round-2",
    )


def test_a_benchmark_is_its_rows_and_its_file(room):
    here = room(bench(HEADER, ROW, LARGE))
    result = once(here, source="project", repeat=2)
    assert isinstance(result, Benchmark)
    assert [row.label for row in result.rows] == ["small", "large"]
    assert (result.source, result.level, result.repeat, result.machine) == ("project", "full", 2, "f" * 64)
    assert here.artifacts.get(result.csv).decode() == f"{HEADER}\n{ROW}\n{LARGE}\n"
    assert result.csv.name == "project-round-1-baseline-2.csv"
    assert result.log is not None


def test_the_quick_command_gets_the_labels_and_none_means_all(room):
    script = f'#!/bin/sh\necho "{HEADER}" > $1\necho "\\"$# $2 $3\\",8,PASS,1,0,1" >> $1\n'
    here = room(script)
    every = once(here)
    assert isinstance(every, Benchmark)
    assert every.rows[0].label == "1  "
    asked = once(here, shapes=("small", "large"))
    assert isinstance(asked, BenchmarkFailed)  # its one row is labelled with what arrived, and nobody asked for that
    assert "no row (rule R2): small, large" in asked.detail


def test_the_project_benchmark_is_narrowed_to_the_active_shapes(room):
    result = once(room(bench(HEADER, ROW, LARGE)), source="project", shapes=("large",))
    assert isinstance(result, Benchmark)
    assert [row.label for row in result.rows] == ["large"]


@pytest.mark.feature("F040")
def test_the_best_known_kernel_is_timed_by_its_own_command_and_named_as_such(room):
    known = {"name": "library", "command": ("./known.sh", "{csv}", "{shapes}")}
    here = room(bench(HEADER, ROW), {"known.sh": bench(HEADER, ROW.replace("1.5", "2.5"), LARGE)}, best_known=known)
    result = once(here, source="best_known", shapes=("small", "large"))
    assert isinstance(result, Benchmark)
    assert result.source == "best_known"
    assert [row.metric("GFLOPS") for row in result.rows] == [2.5, 3.0]
    assert [row.metric("GFLOPS") for row in once(here, shapes=("small",)).rows] == [1.5]


@pytest.mark.parametrize(
    ("script", "reason", "says"),
    [
        (bench(HEADER, ROW, after="exit 1"), "crash", "every row says PASS"),
        (bench(HEADER, ROW, after="exit 2"), "crash", "exit code 2"),
        (bench(HEADER, ROW, after="kill -SEGV $$"), "crash", "exit code"),
        ("#!/bin/sh\necho no device; exit 0\n", "no_csv", "no device"),
        (bench(HEADER), "zero_rows", "no rows"),
        (bench(HEADER.replace("GFLOPS", "TFLOPS"), ROW), "schema_drift", "character"),
        (bench(HEADER, ROW.replace("1.5", "nan")), "not_a_number", "'small'"),
        (bench(HEADER, ROW, after="echo 'exit 0' > test.sh"), "tampered", "test.sh"),
    ],
)
def test_what_is_no_measurement(room, script, reason, says):
    result = once(room(script))
    assert isinstance(result, BenchmarkFailed)
    assert result.reason == reason
    assert says in result.detail


@pytest.mark.feature("F035")
def test_a_csv_is_not_read_before_its_process_has_ended(room):
    here = room(bench(HEADER, ROW, after=f"sleep 0.5\necho '{LARGE}' >> $1"))
    result = once(here)
    assert isinstance(result, Benchmark)
    assert [row.label for row in result.rows] == ["small", "large"]


@pytest.mark.feature("F035")
def test_what_a_killed_benchmark_left_is_not_a_result(room):
    here = room(bench(HEADER, ROW, after="sleep 30"), timeouts={"benchmark_s": 1})
    result = once(here)
    assert isinstance(result, BenchmarkFailed)
    assert result.reason == "timeout"


@pytest.mark.feature("F035")
def test_a_row_cut_in_the_middle_is_not_parsed(room):
    result = once(room(bench(HEADER, ROW, "large,64,PA")))
    assert isinstance(result, BenchmarkFailed)
    assert result.reason == "schema_drift"


def test_an_older_csv_is_never_read_for_a_new_one(room, tmp_path: Path, monkeypatch):
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv(OUTSIDE, str(tmp_path / "notes"))
    first = tmp_path / "notes" / "ran"
    script = f"#!/bin/sh\n[ -e {first} ] && exit 0\ntouch {first}\necho '{HEADER}' > $1\necho '{ROW}' >> $1\n"
    here = room(script, pass_environment=(OUTSIDE,))
    assert isinstance(once(here), Benchmark)
    again = once(here)
    assert isinstance(again, BenchmarkFailed)
    assert again.reason == "no_csv"


def test_a_failed_row_is_reported_as_failed_with_the_harness_own_exit_code(room):
    result = once(room(bench(HEADER, ROW, "large,64,FAIL,nan,nan,nan", after="exit 1")))
    assert isinstance(result, Benchmark)
    assert [row.check for row in result.rows] == ["PASS", "FAIL"]


def test_versions_are_not_compared_on_rows_that_fail(room):
    here = room(bench(HEADER, ROW.replace("PASS", "FAIL")))
    result = pairs(here, here.candidate({"kernel.sh": KERNEL + "#\n"}))
    assert isinstance(result, BenchmarkFailed)
    assert "Check is not PASS for small" in result.detail


def test_an_unknown_source_is_a_mistake_of_the_caller(room):
    with pytest.raises(ValueError, match="guess"):
        once(room(), source="guess")


PAIRED_COMMAND = ("./paired.sh", "{a}", "{b}", "{csv}", "{shapes}", "{blocks}", "{seed}")


def test_paired_ratios_favour_the_faster_candidate_whichever_side_it_was(room):
    here = room(files={"paired.sh": PAIRED}, paired_command=PAIRED_COMMAND)
    faster = here.candidate({"kernel.time": "80\n"})
    result = pairs(here, faster, shapes=("small", "large"), count=6)
    assert here.pairs_shown == [f"pair {number} of 6" for number in range(1, 7)]
    assert isinstance(result, Comparison)
    assert [shape.label for shape in result.shapes] == ["small", "large"]
    for shape in result.shapes:
        assert [len(pair) for pair in shape.pairs] == [3] * 6
        assert all(ratio == pytest.approx(math.log(100 / 80)) for pair in shape.pairs for ratio in pair)
        assert (shape.best_us, shape.candidate_us) == (100, 80)
    raw = json.loads(here.artifacts.get(result.raw))
    assert {pair["processes"][0]["order"][0] for pair in raw} == {"best", "candidate"}
    assert all(pair["processes"][0]["conditions"]["load"]["seconds"] > 0 for pair in raw)
    assert sum(len(pair["pair"]["slots"]) for pair in raw) == 6 * 2 * 3 * 4


def test_the_same_question_is_arranged_alike_and_later_pairs_go_on(room):
    here = room(files={"paired.sh": PAIRED}, paired_command=PAIRED_COMMAND)
    faster = here.candidate({"kernel.time": "80\n"})
    raws = []
    for first, count in ((0, 4), (2, 2)):
        result = pairs(here, faster, first=first, count=count)
        assert isinstance(result, Comparison)
        raws.append(json.loads(here.artifacts.get(result.raw)))
    arranged = [[(pair["pair"]["pair"], pair["processes"][0]["seed"]) for pair in raw] for raw in raws]
    assert arranged[0][2:] == arranged[1]
    assert len({seed for _, seed in arranged[0]}) == 4


def test_classes_come_from_a_benchmark_even_in_a_new_process(room):
    columns = ("label", "regime", "Check", "GFLOPS")
    script = bench(",".join(columns), "small,cached,PASS,1", "large,streaming,PASS,2")
    own = {
        "benchmark_output": {"columns": columns, "config_columns": ("regime",)},
        "scoring": {"primary_metric": "GFLOPS"},
    }
    here = room(script, files={"paired.sh": PAIRED}, paired_command=PAIRED_COMMAND, **own)
    result = pairs(here, here.candidate({"kernel.time": "80\n"}), shapes=("small", "large"), count=1)
    assert isinstance(result, Comparison), result
    assert {s.label: s.config_class for s in result.shapes} == {"small": "regime=cached", "large": "regime=streaming"}


def paired(*rows: str, after: str = "") -> str:
    return "#!/bin/sh\n" + "".join(f"echo '{row}' >> $3\n" for row in (PAIRED_HEADER, *rows)) + after + "\n"


ABBA = ("s,0,0,a,10", "s,0,1,b,10", "s,0,2,b,10", "s,0,3,a,10")


@pytest.mark.parametrize(
    ("script", "reason", "says"),
    [
        (paired(*ABBA, after="exit 1"), "crash", "the candidate"),
        (paired(*ABBA[:3]), "schema_drift", "A B B A"),
        (paired(*ABBA[:2], "s,0,2,a,10", "s,0,3,b,10"), "schema_drift", "A B B A"),
        (paired(*ABBA[:3], "s,0,3,c,10"), "schema_drift", "'c'"),
        (paired(*ABBA[:3], "s,0,3,a,0"), "not_a_number", "'0'"),
        (paired(*ABBA[:3], "s,0,3,a,nan"), "not_a_number", "'nan'"),
        (paired(*ABBA[:3], "s,0,x,a,1"), "not_a_number", "'x'"),
        (paired(*ABBA, *(row.replace("s,0", "s,1") for row in ABBA)), "crash", "2 blocks"),
        (paired(*(row.replace("s,", "t,") for row in ABBA)), "crash", "not timed"),
        (paired(*ABBA, *(row.replace("s,", "t,") for row in ABBA)), "crash", "not asked for"),
        (paired(), "zero_rows", "no rows"),
        (paired(*ABBA[:3], "s,0,3,a,-"), "unstable", "marked invalid by the benchmark itself"),
        ("#!/bin/sh\n", "no_csv", "pair 0"),
        (paired(*ABBA, after="echo >> $1/test.sh"), "tampered", "test.sh"),
    ],
)
@pytest.mark.slow
def test_a_pair_that_counts_for_nothing(room, script, reason, says):
    here = room(files={"paired.sh": script}, paired_command=PAIRED_COMMAND)
    result = pairs(here, here.candidate({"kernel.time": "80\n"}), shapes=("s",), count=1, blocks=1)
    assert isinstance(result, BenchmarkFailed)
    assert (result.reason, says in result.detail) == (reason, True), result.detail


def test_blocks_that_the_harness_marked_invalid_are_counted(room):
    rows = [row.replace("s,0", f"s,{block}") for block in range(5) for row in ABBA]
    rows[5] = "s,1,1,b,-"
    here = room(files={"paired.sh": paired(*rows)}, paired_command=PAIRED_COMMAND)
    result = pairs(here, here.candidate({"kernel.time": "80\n"}), shapes=("s",), count=2, blocks=5)
    assert isinstance(result, Comparison)
    assert (result.dropped_blocks, result.taken_blocks) == (2, 10)
    assert [len(pair) for pair in result.shapes[0].pairs] == [4, 4]
    assert result.notes == ("2 of 10 blocks left out: marked invalid by the benchmark itself",)


def test_slow_is_slow_without_a_paired_command(room):
    timed = (
        "#!/bin/sh\nbegan=$(date +%s%N); ./kernel.sh; took=$(( ($(date +%s%N) - began) / 1000 ))\n"
        f'echo "{HEADER}" > $1\n'
        'echo "small,8,PASS,1,0,$(( took / 1000 )).$(( took % 1000 + 1000 ))" | sed "s/\\.1/./" >> $1\n'
    )
    here = room(timed)
    slower = here.candidate({"kernel.sh": "#!/bin/sh\nsleep 0.06\n"})
    began = time.monotonic()
    result = pairs(here, slower, count=1, blocks=2)
    assert isinstance(result, Comparison), result
    (shape,) = result.shapes
    assert len(shape.pairs[0]) == 2
    assert all(ratio < -0.7 for ratio in shape.pairs[0])
    assert shape.candidate_us > 60_000 > shape.best_us
    assert result.seconds < time.monotonic() - began
    orders = [process["order"][0] for process in json.loads(here.artifacts.get(result.raw))[0]["processes"]]
    assert {tuple(orders[i : i + 4]) for i in (0, 4)} <= {
        ("best", "candidate", "candidate", "best"),
        ("candidate", "best", "best", "candidate"),
    }


def test_the_side_that_failed_is_named(room):
    here = room("#!/bin/sh\n./kernel.sh || exit 9\n" + bench(HEADER, ROW).removeprefix("#!/bin/sh\n"))
    broken = here.candidate({"kernel.sh": "#!/bin/sh\nexit 1\n"})
    result = pairs(here, broken, count=1, blocks=1)
    assert isinstance(result, BenchmarkFailed)
    assert (result.commit, "the candidate" in result.detail) == (broken, True)
