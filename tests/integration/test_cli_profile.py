"""`ridgeline profile`: parsing in every output, comparing, and running profilers, which are stand-ins that replay."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests import text_project
from tests.compute_folders import SYSINFO, make_workload
from tests.nsys_databases import database
from tests.standins_profilers import NCU, NSYS, ROCPROFV3, counted, install, trace
from tests.standins_smi import cards, h100, stand_in

DATA = Path(__file__).resolve().parents[1] / "data" / "ncu"
SOFTMAX = tuple(DATA / f"h100_{page}.csv" for page in ("details", "raw", "source"))
"""Three recordings of one kernel."""
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
HOSTILE = "<script>alert(1)</script>\x1b[2Jk"
KERNEL_KEYS = {
    "name", "calls", "total_ns", "mean_ns", "median_ns", "share", "grid", "workgroup", "arch_vgpr", "accum_vgpr",
    "sgpr", "lds_bytes", "scratch_bytes", "category", "blocks",
}  # fmt: skip


def calls(name, *, count=9, ns=100_000, gap=20_000, start=1_000_000):
    return [(name, start + number * (ns + gap), start + number * (ns + gap) + ns) for number in range(count)]


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_one_object_with_every_field_of_the_promise(cli, written):
    path = written(
        "run_kernel_trace.csv", trace(*calls("my_kernel(float*)"), *calls("__amd_rocclr_copyBuffer", start=10))
    )
    said = cli("profile", "parse", path, "--json")
    assert said.code == 0, said.err
    assert {"format", "tool", "arch", "kernels", "att", "counters", "warnings", "others"} <= set(said.json)
    assert (said.json["format"], said.json["tool"], said.json["arch"]) == ("kernel_trace", "rocprofv3", None)
    mine = next(kernel for kernel in said.json["kernels"] if kernel["name"] == "my_kernel(float*)")
    assert set(mine) >= KERNEL_KEYS
    assert (mine["calls"], mine["median_ns"], mine["total_ns"]) == (9, 100_000, 900_000)
    assert (mine["grid"], mine["workgroup"], mine["blocks"]) == ([262_144, 1, 1], [256, 1, 1], [1024, 1, 1])
    assert said.json["att"] is None
    assert said.json["profiles"][0]["profile"]["display"] == "my_kernel"


@pytest.mark.feature("F116")
def test_bytes_that_were_moved_are_told_against_the_least(cli, written):
    path = written("run_counter_collection.csv", counted("my_kernel(float*)", FETCH_SIZE=1040.0, WRITE_SIZE=1040.0))
    said = cli("profile", "parse", path, "--least-bytes", 2 * 1024**2 * 1000 / 1024, "--json")
    assert said.code == 0, said.err
    (judged,) = said.json["profiles"]
    numbers = {one["name"]: one["value"] for one in judged["profile"]["numbers"]}
    assert numbers["mem.bytes"] == 2080 * 1024
    assert numbers["mem.over_fetch"] == pytest.approx(1.04)
    assert "over_fetch 1.04" in cli("profile", "parse", path, "--least-bytes", 2_048_000).out
    assert "over_fetch" not in cli("profile", "parse", path).out


def test_a_profile_of_ncu_is_classified_with_its_evidence(cli):
    said = cli("profile", "parse", *SOFTMAX, "--kernel", "softmax")
    assert said.code == 0, said.err
    assert "softmax_kernel: memory-bound (hbm), high confidence" in said.out
    assert "because  mem.pct_of_peak 0.861 (high from 0.6" in said.out
    assert "waits    mem_wait 43.7%" in said.out
    assert "FMNMX R29, R5, R4, !PT" in said.out
    one = cli("profile", "parse", *SOFTMAX, "--json").json
    assert [other["format"] for other in one["others"]] == ["ncu_raw", "ncu_source"]
    assert len(one["profiles"]) == 1
    rungs = {said["rung"] for said in one["profiles"][0]["profile"]["numbers"]}
    assert rungs == {"counters"}


def test_the_page_holds_no_foreign_markup_and_a_terminal_gets_no_escape(cli, written, tmp_path):
    path = written("x_kernel_trace.csv", trace(*calls(HOSTILE)))
    said = cli("profile", "parse", path, "--html", tmp_path / "page.html")
    assert said.code == 0, said.err
    assert "\x1b" not in said.out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("parse", "{none}"), "no such file"),
        (("parse", "{empty}"), "empty"),
        (("parse", "{text}"), "{text}"),
        (("parse", "{trace}", "--kernel", "("), "--kernel"),
        (("parse", "{trace}", "--kernel", "nothing"), "recorded are my_kernel"),
        (("parse", "{trace}", "--html", "{none}/x.html"), "--html"),
        (("diff", "{trace}", "{other}"), "no kernel is in both"),
    ],
)
def test_bad_input_is_one_line_and_two(cli, written, tmp_path, arguments, words):
    names = {
        "none": tmp_path / "none",
        "empty": written("empty_kernel_trace.csv", ""),
        "text": written("text.csv", "hello\nworld\n"),
        "trace": written("run_kernel_trace.csv", trace(*calls("my_kernel"))),
        "other": written("other_kernel_trace.csv", trace(*calls("another"))),
    }
    said = cli("profile", *(word.format(**names) for word in arguments))
    assert said.code == 2
    assert words.format(**names) in said.complaint


def test_cut_recordings_are_refused_in_one_line_or_read(cli, written):
    whole = trace(*calls("my_kernel"))
    draw = random.Random(5)
    for number in range(12):
        said = cli(
            "profile", "parse", written(f"{number}_kernel_trace.csv", whole[: draw.randrange(len(whole))]), "--json"
        )
        assert said.code in (0, 2)
        if said.code == 2:
            assert f"{number}_kernel_trace.csv" in said.complaint
        else:
            assert all(kernel["median_ns"] > 0 for kernel in said.json["kernels"])


@pytest.mark.parametrize(
    ("ns", "answer"),
    [(50_000, "faster"), (150_000, "slower"), (99_920, "no difference resolved"), (99_919, "faster")],
)
def test_a_difference_states_what_it_resolves(cli, written, ns, answer):
    a = written("a_kernel_trace.csv", trace(*calls("my_kernel")))
    b = written("b_kernel_trace.csv", trace(*calls("my_kernel", ns=ns), vgpr=128))
    found = cli("profile", "diff", a, b, "--json").json
    (moved,) = found["kernels"]
    assert (moved["time"]["answer"], moved["time"]["resolution_ns"]) == (answer, 80)
    assert [number["name"] for number in moved["numbers"]] == ["regs.arch"]
    text = cli("profile", "diff", a, b)
    assert answer in text.out
    assert "regs.arch" in text.out


def test_times_with_counters_are_never_compared(cli):
    said = cli("profile", "diff", DATA / "h100_raw.csv", DATA / "h100_details.csv", "--json")
    (moved,) = said.json["kernels"]
    assert moved["time"]["answer"] == "not comparable"
    assert said.json["only_a"] == []


def test_two_kernels_named_alike_are_kept_apart(cli, written):
    a = written("a_kernel_trace.csv", trace(*calls("k<1>(int)"), *calls("k<2>(int)", ns=50_000)))
    b = written("b_kernel_trace.csv", trace(*calls("k<2>(int)"), *calls("k<3>(int)")))
    found = cli("profile", "diff", a, b, "--json").json
    assert [(moved["a"], moved["b"]) for moved in found["kernels"]] == [("k<2>", "k<2>")]
    assert (found["only_a"], found["only_b"]) == (["k<1>"], ["k<3>"])


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside this checkout")
def test_a_trace_and_a_thread_trace_of_one_kernel_are_joined(cli):
    trace_file = SAMPLES / "rocprofv3_kernel_trace" / "rocm7.2_mi350x_flash_attn_func_kernel_trace.csv"
    said = cli("profile", "parse", trace_file, SAMPLES / "att" / "flash_attn_big", "--kernel", "flash_attn", "--json")
    golden = json.loads((SAMPLES / "GOLDEN.json").read_text())["att"]["flash_attn_big"]
    one = said.json["profiles"][0]["profile"]
    numbers = {number["name"]: number for number in one["numbers"]}
    assert (one["grade"], numbers["time.median_ns"]["value"]) == ("trace", 92_041)
    assert (numbers["regs.arch"]["value"], numbers["regs.total_per_thread"]["value"]) == (124, 248)
    assert numbers["comp.matrix_busy"]["value"] == pytest.approx(0.24, abs=0.005)
    assert one["stalls"][0]["basis"] == "wave_time"
    att = said.json["att"]
    assert (att["instructions"], att["latency"], att["stall"], att["idle"]) == tuple(
        golden[name] for name in ("instructions", "sum_latency", "sum_stall", "sum_idle")
    )
    assert att["checksum_ok"] is True
    for kind, told in golden["by_class"].items():
        assert att["by_kind"][kind] == pytest.approx(told["stall_share_of_wave_time"], abs=1e-4), kind
    assert sum(att["by_class"].values()) == pytest.approx(att["checksum"], abs=1e-3), "one taxonomy"


@pytest.fixture
def on_gpu(make_repository, monkeypatch, tmp_path):
    """`on_gpu("nvidia-smi", gpu, profile_command)` -> (contract's folder, folder of the tools)."""

    def make(smi, gpu, command):
        files = dict(text_project.files())
        contract = yaml.safe_load(files["ridgeline.yaml"])
        contract |= {
            "target_backend": "TRITON",
            "target_gpu": gpu,
            "profile": {"command": command, "kernel": "my_kernel"},
        }
        files["ridgeline.yaml"] = yaml.safe_dump(contract)
        moment = cards(h100()) if smi == "nvidia-smi" else ROCM_IDLE
        tools = stand_in(tmp_path / "tools", smi, [moment])
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv(
            "RIDGELINE_GATE", "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0"
        )
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        monkeypatch.chdir(tmp_path)
        return make_repository(files), tools

    return make


ROCM_IDLE = json.dumps(
    {
        "card0": {
            "GPU use (%)": "0", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "297795584",
            "Current Socket Graphics Package Power (W)": "158.0", "PCI Bus": "0000:0C:00.0",
            "Card Series": "AMD Instinct MI300X",
        },
        "system": {},
    }
)  # fmt: skip
QUIET = ["python3", "-c", "print('nothing')"]
TELLS = ["python3", "-c", "print('kernel_time_us=12.5'); print('calls=3')"]


@pytest.mark.feature("F092")
def test_ncu_is_tried_until_it_finds_the_kernel(cli, on_gpu, tmp_path):
    root, tools = on_gpu("nvidia-smi", "H100", QUIET)
    whole = (DATA / "h100_raw.csv").read_text().replace("softmax_kernel", "my_kernel")
    called = install(tools, "ncu", NCU, {"ncu-0.csv": "==WARNING== No kernels were profiled.\n", "ncu-1.csv": whole})
    said = cli("profile", "run", root, "--out", tmp_path / "kept", "--json")
    assert said.code == 0, said.err
    assert "no kernels were profiled" in said.err
    assert said.json["profiles"][0]["bound"]["bound"] == "memory_bound"
    first, second = called.read_text().splitlines()
    assert "--kernel-name regex:my_kernel --launch-skip 5 --launch-count 3 --clock-control none" in first
    assert "--launch-skip 0" in second
    assert second.endswith(" python3 -c print('nothing')")
    assert (tmp_path / "kept" / "ncu_2.csv").is_file()


def test_where_counters_are_forbidden_the_programs_own_time_is_left(cli, on_gpu):
    root, tools = on_gpu("nvidia-smi", "H100", TELLS)
    called = install(tools, "ncu", NCU, {"ncu-0.csv": "==ERROR== ERR_NVGPUCTRPERM - no permission\n"})
    said = cli("profile", "run", root, "--json")
    assert said.code == 0, said.err
    assert len(called.read_text().splitlines()) == 1
    assert "ERR_NVGPUCTRPERM" in said.err
    one = said.json["profiles"][0]["profile"]
    assert one["grade"] == "events"
    assert {number["rung"] for number in one["numbers"]} == {"events"}
    assert said.json["kernels"][0]["mean_ns"] == 12_500
    assert said.json["kernels"][0]["median_ns"] is None


def test_where_counters_are_forbidden_nsys_tells_each_launch(cli, on_gpu, tmp_path):
    root, tools = on_gpu("nvidia-smi", "H100", QUIET)
    install(tools, "ncu", NCU, {"ncu-0.csv": "==ERROR== ERR_NVGPUCTRPERM - no permission\n"})
    called = install(tools, "nsys", NSYS, {})
    database(tools / "run.sqlite", name="my_kernel")
    said = cli("profile", "run", root, "--out", tmp_path / "kept", "--json")
    assert said.code == 0, said.err
    assert "ERR_NVGPUCTRPERM" in said.err
    kernel = said.json["kernels"][0]
    assert (kernel["name"], kernel["calls"], kernel["median_ns"], kernel["arch_vgpr"]) == ("my_kernel", 9, 10_000, 64)
    assert said.json["profiles"][0]["profile"]["grade"] == "trace"
    recorded, exported = called.read_text().splitlines()[-2:]
    assert recorded.startswith("nsys profile --trace cuda --sample none")
    assert recorded.endswith(" python3 -c print('nothing')")
    assert exported.startswith("nsys export --type sqlite")
    assert (tmp_path / "kept" / "nsys" / "run.sqlite").is_file()


def test_nothing_recorded_is_five(cli, on_gpu):
    root, _ = on_gpu("nvidia-smi", "H100", QUIET)
    said = cli("profile", "run", root)
    assert said.code == 5
    assert "ridgeline doctor" in said.complaint
    assert "ncu" in said.err
    assert "kernel_time_us" in said.err


def test_a_program_that_fails_by_itself_is_not_given_to_a_profiler(cli, on_gpu):
    root, tools = on_gpu("nvidia-smi", "H100", ["python3", "-c", "import no_such_module"])
    called = install(tools, "ncu", NCU, {"ncu-0.csv": "==WARNING== No kernels were profiled.\n"})
    said = cli("profile", "run", root)
    assert said.code == 2
    assert "profile.command: python3 -c import no_such_module: exit code 1" in said.complaint
    assert "No module named 'no_such_module'" in said.complaint
    assert not called.exists()


@pytest.mark.feature("F092")
def test_rocprofv3_times_counts_in_smaller_passes_and_says_what_is_missing(cli, on_gpu):
    root, tools = on_gpu("rocm-smi", "MI300X", QUIET)
    files = {
        "trace.csv": trace(*calls("my_kernel(float*)")),
        "counted.csv": counted("my_kernel(float*)", SQ_WAVES=4096, GRBM_GUI_ACTIVE=1e6),
        "counters": "SQ_WAVES SQ_WAVE_CYCLES GRBM_GUI_ACTIVE TCC_HIT_sum TCC_MISS_sum\n",
    }
    called = install(tools, "rocprofv3", ROCPROFV3, files)
    said = cli("profile", "run", root, "--json")
    assert said.code == 0, said.err
    lines = called.read_text().splitlines()
    assert "--kernel-trace --stats --output-format csv" in lines[0]
    passes = [line.partition("--pmc ")[2].partition(" --kernel")[0].split() for line in lines if "--pmc" in line]
    assert passes[0] == ["GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_WAVE_CYCLES"]
    assert passes[1:3] == [["GRBM_GUI_ACTIVE"], ["SQ_WAVES", "SQ_WAVE_CYCLES"]]
    assert "--att" in lines[-1]
    assert "--kernel-iteration-range [5-5]" in lines[-1]
    assert "left out, unknown or refused here: " in said.err
    assert "no thread trace" in said.err
    assert said.json["profiles"][0]["profile"]["grade"] == "trace"
    assert said.json["kernels"][0]["median_ns"] == 100_000


@pytest.mark.feature("F092")
@pytest.mark.parametrize(("flag", "passes"), [("--pmc-only", {"--pmc"}), ("--att-only", {"--att"})])
def test_one_pass_alone_is_run_after_the_times_that_find_the_kernel(cli, on_gpu, flag, passes):
    root, tools = on_gpu("rocm-smi", "MI300X", QUIET)
    files = {
        "trace.csv": trace(*calls("my_kernel(float*)")),
        "counted.csv": counted("my_kernel(float*)", SQ_WAVES=4096),
        "counters": "SQ_WAVES SQ_WAVE_CYCLES\n",
    }
    called = install(tools, "rocprofv3", ROCPROFV3, files)
    said = cli("profile", "run", root, flag, "--json")
    assert said.code == 0, said.err
    lines = called.read_text().splitlines()
    assert "--kernel-trace --stats" in lines[0]
    assert {word for line in lines for word in ("--pmc", "--att") if f" {word} " in line} == passes


@pytest.mark.feature("F092")
def test_only_the_assembly_that_the_compiler_leaves(cli, on_gpu, tmp_path):
    writes = "import os, pathlib; pathlib.Path(os.environ['TRITON_CACHE_DIR'], 'k.amdgcn').write_text('s_endpgm')"
    root, tools = on_gpu(
        "rocm-smi", "MI300X", ["python3", "-c", f"import os\nif 'TRITON_CACHE_DIR' in os.environ: {writes}"]
    )
    called = install(tools, "rocprofv3", ROCPROFV3, {})
    said = cli("profile", "run", root, "--asm-only", "--out", tmp_path / "kept", "--json")
    assert said.code == 0, said.err
    assert said.json["assembly"] == [str(tmp_path / "kept" / "asm" / "k.amdgcn")]
    assert not called.exists()
    assert cli("profile", "run", root, "--asm-only", "--pmc-only").code == 2


def test_a_pass_of_rocprofv3_is_none_of_a_card_of_nvidia(cli, on_gpu):
    root, _ = on_gpu("nvidia-smi", "H100", QUIET)
    said = cli("profile", "run", root, "--att-only")
    assert (said.code, "--att-only: is a pass of rocprofv3" in said.complaint) == (2, True)


PERF = """#!/bin/sh
case "$1" in
stat) echo "Error: refused"; exit 1;;
record) while [ "$1" != -- ]; do shift; done; shift; "$@";;
report) cat <<'TABLE'
# Overhead  Samples  Shared Object  Symbol
    81.20%   812  libkernel.so   [.] scale<float, 4>(float*, int)
    18.80%   188  [kernel.kallsyms]  [k] clear_page
TABLE
esac
"""


@pytest.fixture
def on_processor(make_repository, monkeypatch, tmp_path):
    """`on_processor(perf=..., **fields of the contract)` -> its folder; only Python, git and that perf are on PATH."""

    def make(perf=None, **fields):
        files = dict(text_project.files())
        files["ridgeline.yaml"] = yaml.safe_dump(yaml.safe_load(files["ridgeline.yaml"]) | fields)
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "python3").symlink_to(Path(sys.executable).resolve())
        for name in ("git", "sh", "cat", "env", "true"):
            (tools / name).symlink_to(shutil.which(name))
        if perf is not None:
            (tools / "perf").write_text(perf)
            (tools / "perf").chmod(0o755)
        monkeypatch.setenv("PATH", str(tools))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # a lease that nobody else holds
        monkeypatch.chdir(tmp_path)
        return make_repository(files)

    return make


BUSY = ["python3", "-c", "sum(range(2_000_000)); print('kernel_time_us=12.5'); print('calls=3')"]


def test_a_program_of_the_processor_tells_what_it_used_and_what_nothing_here_could_see(cli, on_processor, tmp_path):
    root = on_processor(profile={"command": BUSY, "kernel": "scale"})
    said = cli("profile", "run", root, "--json")
    assert said.code == 0, said.err
    usage, profiled = said.json["usage"], said.json["profiled"]
    assert 0 < usage["user_s"] + usage["system_s"] < usage["wall_s"] * 1.1
    assert usage["faults"] > 100
    assert {one["name"]: one["value"] for one in profiled["counters"]} == {"kernel_time_us": 12.5, "calls": 3}
    assert (profiled["rung"], said.json["hot"], said.json["paths"]) == ("timing_only", [], [])
    for missing in ("perf is not installed: no samples", "valgrind: not tried on Python", "compiler report: "):
        assert any(missing in note for note in said.json["notes"]), missing
    assert list((tmp_path / "profiles").iterdir()) == []
    text = cli("profile", "run", root)
    assert "s user and " in text.out
    assert "perf is not installed: no samples say where the time goes" in text.err


def test_samples_name_the_functions_where_time_goes_of_a_benchmark_too(cli, on_processor):
    root = on_processor(perf=PERF)  # its contract has no profile command
    said = cli("profile", "run", root, "--json")
    assert said.code == 0, said.err
    assert said.json["hot"] == [
        {"share": 0.812, "samples": 812, "file": "libkernel.so", "symbol": "scale<float, 4>(float*, int)"},
        {"share": 0.188, "samples": 188, "file": "[kernel.kallsyms]", "symbol": "clear_page"},
    ]
    assert said.json["samples"] == 1000
    assert not any("shares are rough" in note for note in said.json["notes"])
    assert any("perf stat is refused here: Error: refused" in note for note in said.json["notes"])
    refused = cli("profile", "run", root, "--pmc-only")
    assert refused.code == 2
    assert "names the processor" in refused.complaint


def test_few_samples_are_told_as_such_and_not_as_shares(cli, on_processor):
    rows = (
        "44.44%  4  libkernel.so  [.] scale",
        "33.33%  3  libkernel.so  [.] add",
        "22.22%  2  libc.so.6  [.] memcpy",
    )
    lines = PERF.splitlines()
    few = [*lines[: lines.index("report) cat <<'TABLE'") + 1], *rows, *lines[lines.index("TABLE") :], ""]
    root = on_processor(perf="\n".join(few))
    said = cli("profile", "run", root)
    assert said.code == 0, said.err
    assert "hot     4 of 9 samples  scale  (libkernel.so)" in said.out
    assert "%" not in "".join(line for line in said.out.splitlines() if line.startswith("hot"))
    assert (
        "only 9 samples, one for each 1 ms of processor time: shares are rough, and functions one sample apart are in no"
        in said.err
    )


def test_a_program_of_the_processor_that_fails_is_one_line(cli, on_processor, tmp_path):
    root = on_processor(profile={"command": ["python3", "-c", "import no_such_module"]})
    said = cli("profile", "run", root)
    assert said.code == 2
    assert "profile.command: python3 -c import no_such_module: exit code 1" in said.complaint
    assert not any((tmp_path / "profiles").iterdir())


COPY_BYTES = {"TCC_EA0_RDREQ_sum": 65536, "TCC_EA0_RDREQ_32B_sum": 0, "TCC_BUBBLE_sum": 0}
COPY_BYTES |= {"TCC_EA0_WRREQ_sum": 65536, "TCC_EA0_WRREQ_64B_sum": 65536, "SQ_ACTIVE_INST_VALU": 90, "SQ_WAVES": 1024}
COPY_BYTES |= {"GRBM_GUI_ACTIVE": 336_000}
COPIES = ((0, 20_000), (20_000, 40_000), (40_000, 60_000))


def test_bytes_without_a_usable_time_ask_for_the_time(cli, tmp_path):
    """A spreadsheet wrote both ends of a dispatch as 1.62068E+14."""
    folder = make_workload(tmp_path / "rounded", counters=(COPY_BYTES,) * 3, times=(("1.62E+14",) * 2,) * 3)
    (judged,) = cli("profile", "parse", folder, "--json").json["profiles"]
    assert judged["bound"]["flags"] == ["time_unknown"]
    assert any("the bytes are there" in text for text in judged["bound"]["evidence"])
    assert not any("record the bytes" in text for text in judged["bound"]["next"])


def test_bytes_and_time_of_rocprof_compute_meet_the_peak_of_the_product(cli, tmp_path):
    """MI300X_A1 is rocprof-compute's name for the MI300X; a bare MI350 may be one of two."""
    for model, options, share in (("MI300X_A1", (), 5300), ("MI350", (), None), ("MI350", ("--gpu", "MI350X"), 8000)):
        sysinfo = {**SYSINFO, "gpu_model": model, "max_mclk": ""}
        folder = make_workload(
            tmp_path / f"{model}{len(options)}", counters=(COPY_BYTES,) * 3, times=COPIES, sysinfo=sysinfo
        )
        (judged,) = cli("profile", "parse", folder, *options, "--json").json["profiles"]
        numbers = {number["name"]: number["value"] for number in judged["profile"]["numbers"]}
        assert numbers["mem.gbps"] == pytest.approx(2 * 64 * 65536 / 20_000)
        if share is None:
            assert "mem.pct_of_peak" not in numbers
            assert any("name the product with --gpu" in text for text in judged["bound"]["next"])
        else:
            assert numbers["mem.pct_of_peak"] == pytest.approx(numbers["mem.gbps"] / share)
            assert judged["bound"]["bound"] == "latency_bound"
    die = {"gpu_model": "MI200", "hbm_bw": "1638.4", "num_hbm_channels": ""}
    folder = make_workload(tmp_path / "die", counters=(COPY_BYTES,) * 3, times=COPIES, sysinfo={**SYSINFO, **die})
    (judged,) = cli("profile", "parse", folder, "--gpu", "MI250X", "--json").json["profiles"]
    (share,) = (number for number in judged["profile"]["numbers"] if number["name"] == "mem.pct_of_peak")
    assert share["value"] == pytest.approx(2 * 64 * 65536 / 20_000 / 1638.4)  # one of the product's two dies ran
    refused = cli("profile", "parse", folder, "--gpu", "MI3500X")
    assert (refused.code, "--gpu: no document is about MI3500X; did you mean" in refused.complaint) == (2, True)
