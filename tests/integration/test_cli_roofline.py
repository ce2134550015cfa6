"""`roofline` from the shell: an operator from documents alone, a real contract, a campaign and its picture."""

import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import yaml

from ridgeline.graph.evidence import Ceilings
from tests import text_project
from tests.builders import make_limits, make_machine
from tests.campaigns import make_campaign

GEMM = ("roofline", "--op", "gemm", "--shape", "4096,4096,4096", "--dtype", "bf16")


@pytest.mark.feature("F068", "F071", "F088")
def test_gemm_4096_in_bf16_on_h100(cli):
    done = cli(*GEMM, "--gpu", "H100", "--json")
    assert done.code == 0
    found = done.json
    assert found["op"] == "gemm"
    assert found["shape"] == {"M": 4096, "N": 4096, "K": 4096}
    assert (found["flops"], found["bytes"]) == (2 * 4096**3, 3 * 2 * 4096**2)
    assert found["intensity"] == pytest.approx(1365.33, abs=0.01)
    assert found["ridge"] == pytest.approx(295.3, abs=0.1)
    assert found["bound"] == "compute"
    assert found["floor_us"] == pytest.approx(138.9, abs=0.1)
    assert (found["target"], found["target_unit"]) == (890.5, "TFLOPS")
    assert any(
        line.startswith("bf16_dense: 989.4 TFLOPS <- knowledge/hardware/h100-sxm.md:L") for line in found["sources"]
    )
    assert any(
        line.startswith("hbm_bandwidth: 3.35 TB/s <- knowledge/hardware/h100-sxm.md:L") for line in found["sources"]
    )


@pytest.mark.feature("F068")
def test_every_source_is_what_the_knowledge_base_prints_for_it(cli):
    for line in cli(*GEMM, "--gpu", "MI300X", "--json").json["sources"]:
        metric = line.partition(":")[0]
        assert cli("knowledge", "spec", "MI300X", metric).out.strip() == line


@pytest.mark.feature("F071")
@pytest.mark.parametrize(
    ("gpu", "dtype", "ridge", "target"),
    [
        ("H200", "bf16", 206.1, 890.5),
        ("MI300X", "bf16", 246.7, 1177),
        ("MI355X", "bf16", 312.5, 2250),
        ("H100", "fp8", 590.7, 1781),
    ],
)
def test_ridge_and_target_of_other_products(cli, gpu, dtype, ridge, target):
    arguments = ("roofline", "--op", "gemm", "--shape", "8192,8192,8192", "--dtype", dtype, "--gpu", gpu, "--json")
    found = cli(*arguments).json
    assert found["ridge"] == pytest.approx(ridge, abs=0.1)
    assert found["target"] == target


@pytest.mark.parametrize(
    ("gpu", "dtype", "achieved", "above"),
    [
        ("H100", "bf16", "794.5 TFLOPS, 80.3 % of bf16_dense <- knowledge/hardware/h100-sxm.md:L32, one source", True),
        (
            "RTX 5090",
            "bf16",
            "254.03 TFLOPS, 121.3 % of bf16_dense <- knowledge/hardware/rtx-5090.md:L24, one source",
            False,
        ),
        ("H100", "fp16", "UNKNOWN, no source gives what a kernel reached", False),
    ],
)
def test_what_kernels_reached_stands_beside_the_target_that_is_above_it(cli, gpu, dtype, achieved, above):
    arguments = ("roofline", "--op", "gemm", "--shape", "8192,8192,8192", "--dtype", dtype, "--gpu", gpu)
    done = cli(*arguments)
    assert f"achieved   {achieved}" in done.out
    assert ("target: above the most that any source here gives" in done.err) is above


def test_a_matvec_is_bound_by_memory(cli):
    done = cli("roofline", "--op", "gemv", "--shape", "M=8192,K=8192", "--dtype", "bf16", "--gpu", "H100", "--json")
    assert (done.json["bound"], done.json["target"], done.json["target_unit"]) == ("memory", 3.015, "TB/s")
    assert done.json["achieved"] is None, "measured products say nothing of memory"


@pytest.mark.feature("F069")
@pytest.mark.parametrize(("gpu", "dtype"), [("H100", "fp4"), ("H999", "bf16"), ("MI308X", "bf16")])
def test_an_unknown_peak_disables_the_target_and_is_said(cli, gpu, dtype):
    done = cli("roofline", "--op", "gemm", "--shape", "512,512,512", "--dtype", dtype, "--gpu", gpu, "--json")
    assert done.code == 0
    assert f"{dtype}_dense: UNKNOWN (gpu-wiki not found)" in done.json["sources"]
    assert (done.json["target"], done.json["ridge"], done.json["floor_us"]) == (None, None, None)
    assert done.json["bound"] == "unknown"
    assert "target: UNKNOWN" in done.err


def test_without_a_product_the_work_alone_is_told(cli):
    found = cli(*GEMM, "--json").json
    assert (found["flops"], found["bound"], found["sources"]) == (2 * 4096**3, "unknown", [])


def test_tiles_lower_the_ceiling_and_data_in_a_cache_is_told(cli):
    done = cli(*GEMM, "--gpu", "H100", "--tile", "128,256", "--json")
    wave = done.json["wave"]
    assert (wave["grid"], wave["units"], wave["waves"], wave["fill"]) == (512, 132, 4, "normal")
    assert wave["ceiling_gflops"] == pytest.approx(959.4e3, rel=1e-3)
    small = cli("roofline", "--op", "copy", "--shape", "1000000", "--dtype", "fp32", "--gpu", "H100")
    assert "fit l2_capacity" in small.err
    text = cli(*GEMM, "--gpu", "H100", "--grid", "100").out
    assert "100 tiles on 132 units (normal): 1 waves" in text


def test_the_ceilings_of_a_module_of_two_dies_are_those_of_the_one_that_a_kernel_runs_on(cli):
    done = cli("roofline", "--op", "gemm", "--shape", "4096,4096,4096", "--dtype", "fp16", "--gpu", "MI250X")
    assert "fp16_dense: 191.5 TFLOPS <- knowledge/hardware/mi250x.md:L16 / 2 dies" in done.out.splitlines()
    assert "target     >= 172.3 TFLOPS (90 % of the ceiling)" in done.out.splitlines()


@pytest.mark.parametrize(
    ("op", "shape", "said"),
    [
        ("allreduce_rmsnorm", "128,8192,8", "bound by the links between devices too"),
        ("conv", "8,64,56,56,64,3,PAD=1", "Winograd's and Fourier's algorithms multiply less"),
    ],
)
def test_what_neither_ceiling_says_is_told(cli, op, shape, said):
    done = cli("roofline", "--op", op, "--shape", shape, "--dtype", "bf16", "--gpu", "H100", "--json")
    assert said in done.err
    assert any(said in note for note in done.json["notes"])
    assert said not in cli(*GEMM, "--gpu", "H100").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--op", "gem", "--shape", "1", "--dtype", "bf16"), "--op: unknown operator 'gem'"),
        (("--op", "gemm", "--shape", "1,2", "--dtype", "bf16"), "--shape: K missing; gemm takes M,N,K"),
        (("--op", "gemm", "--shape", "1,2,3", "--dtype", "f17"), "--dtype: unknown type 'f17'"),
        (("--op", "gemm", "--dtype", "bf16"), "--shape: missing"),
        (("--op", "gemm", "--shape", "1,2,3"), "--dtype: missing"),
        (("--shape", "1,2,3"), "--shape: is for --op"),
        ((), "CONTRACT: missing"),
        (("nowhere",), "nowhere: no such campaign"),
        (("nowhere", "--op", "gemm"), "--op: not together with nowhere"),
        ((*GEMM[1:], "--gpu", "H100", "--tile", "128"), "--tile: '128' is not BM,BN"),
        ((*GEMM[1:], "--gpu", "H100", "--tile", "1,2", "--grid", "3"), "not together with --grid"),
        ((*GEMM[1:], "--gpu", "H100", "--grid", "0"), "--grid: is 0"),
        ((*GEMM[1:], "--grid", "3"), "--grid: needs a --gpu"),
        ((*GEMM[1:], "--gpu", "H100", "--wiki", "nowhere"), "--wiki: nowhere: no such folder"),
        (
            ("--op", "copy", "--shape", "9", "--dtype", "fp32", "--gpu", "H100", "--grid", "3"),
            "an operator that computes",
        ),
    ],
)
def test_a_mistake_is_one_line_and_leaves_with_two(cli, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = cli("roofline", *arguments)
    assert done.code == 2
    assert said in done.complaint


def test_every_operator_is_listed_with_its_formula(cli):
    listed = cli("roofline", "--list-ops", "--json").json
    text = cli("roofline", "--list-ops").out
    assert len(listed) >= 20
    assert all(one["name"] in text and one["formula"] in text for one in listed)


@pytest.mark.feature("F068")
def test_an_attached_wiki_is_read_by_the_same_rules(cli, tmp_path):
    page = tmp_path / "house" / "hardware" / "x1.md"
    page.parent.mkdir(parents=True)
    page.write_text(
        "---\ntitle: House X1\nkind: product\ngpus: [gfx942]\naliases: [X1]\nphase: [analyze]\nsummary: ours\n---\n"
        "# House X1\n\n## Specs\n\n- bf16_dense: 100 TFLOPS [src: board]\n- hbm_bandwidth: 1.0 TB/s [src: board]\n"
    )
    found = cli(*GEMM, "--gpu", "X1", "--wiki", tmp_path / "house", "--json").json
    assert (found["ridge"], found["target"]) == (100, 90)
    assert found["sources"][0] == "bf16_dense: 100 TFLOPS <- house/hardware/x1.md:L13"


def project(make_repository, **changes):
    files = dict(text_project.files())
    contract = {**yaml.safe_load(files["ridgeline.yaml"]), **changes}
    files["ridgeline.yaml"] = yaml.safe_dump(contract, sort_keys=False)
    files["harness.py"] = files["harness.py"].replace("/usr/bin/env -S python3", sys.executable)
    return make_repository(files)


@pytest.mark.slow
def test_a_contract_is_measured_on_this_machine(cli, make_repository, tmp_path):
    folder = project(make_repository, dtype="fp32", work={"flops": "1000", "bytes": "4"})
    done = cli("roofline", folder, "--json", "--plot", tmp_path / "now.svg")
    assert done.code == 0, done.err
    found = done.json
    assert {shape["label"] for shape in found["shapes"]} == {"small", "large"}
    assert all(shape["bound"] == "compute" and 0 < shape["share"] < 0.5 for shape in found["shapes"])
    assert not found["nothing_to_gain"]
    assert found["said"].startswith("the kernel reaches 0.")
    assert ElementTree.parse(tmp_path / "now.svg").getroot().tag.endswith("svg")
    assert "is left" in cli("roofline", folder).out
    checked = cli("check", folder, "--json").json
    assert checked["nothing_to_gain"] is False
    assert any("is left" in warning for warning in checked["warnings"])


@pytest.mark.slow
@pytest.mark.feature("F089")
def test_a_shape_that_fits_a_cache_is_held_against_a_copy_of_its_own_size(cli, make_repository):
    folder = project(make_repository, dtype="fp32", work={"bytes": "65536"})
    done = cli("roofline", folder, "--json")
    assert done.code == 0, done.err
    for shape in done.json["shapes"]:
        assert shape["copy_gbps"] > 0
        rate_gbps = 65536 / shape["now_us"] / 1e3
        assert shape["of_copy"] == pytest.approx(rate_gbps / shape["copy_gbps"])
    assert "bytes read plus bytes written" in done.json["ceilings"]["method"]


class Ceiled:
    def machine(self):
        return make_machine()

    def ceilings(self, dtype):
        return Ceilings(copy_gbps=200.0, flops_gflops=400.0, method="copy loop, pinned", machine="machine-0")


@pytest.fixture
def campaign(tmp_path):
    """A finished campaign of the scripted world: only its ledger lies on the disk."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    made = make_campaign(folder, "speed 120", "speed 90", "speed 150", limits=make_limits(max_restarts=0))
    made.ports = replace(made.ports, device=Ceiled())
    made.drive()
    return folder


def test_a_campaign_shows_original_and_best_under_its_ceilings(cli, campaign):
    found = cli("roofline", campaign, "--json").json
    assert found["best_round"] == 4
    assert found["original"]["share"] == pytest.approx((50 * 100 * 200) ** (1 / 3) / 400, rel=0.02)
    assert found["best"]["share"] == pytest.approx(1.5 * found["original"]["share"], rel=0.02)
    assert [shape["label"] for shape in found["shapes"]] == ["small", "medium", "large"]
    assert found["said"].startswith("hardware efficiency ")
    text = cli("roofline", campaign).out
    assert "ORIGINAL us" in text
    assert "copy bandwidth: 200 GB/s <- measured here: copy loop, pinned" in text


def test_the_picture_has_the_ceilings_the_rounds_and_the_best(cli, campaign, tmp_path):
    done = cli("roofline", campaign, "--plot", tmp_path / "roof.svg")
    assert done.code == 0, done.err
    text = (tmp_path / "roof.svg").read_text()
    for word in ("copy bandwidth 200 GB/s, measured here", "rounds, kept", "rounds, rolled back", "best (round 4)"):
        assert word in text
    assert cli("roofline", campaign, "--plot", tmp_path / "roof.png").code == 0
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_read(cli, campaign, tmp_path):
    assert "must end in .png or .svg" in cli("roofline", campaign, "--plot", tmp_path / "roof.jpg").complaint
    assert "cannot be written" in cli("roofline", campaign, "--plot", tmp_path / "no" / "roof.png").complaint


def test_without_formulas_there_is_no_picture(cli, tmp_path):
    made = make_campaign(tmp_path, "speed 120", limits=make_limits(max_restarts=0, max_rounds=1), work={})
    made.drive()
    assert (
        "no shape has both a time and a work formula"
        in cli("roofline", tmp_path, "--plot", tmp_path / "r.png").complaint
    )


def test_without_operations_the_traffic_is_drawn(cli, tmp_path):
    made = make_campaign(
        tmp_path, "speed 120", limits=make_limits(max_restarts=0, max_rounds=1), work={"bytes": "4*M*K"}
    )
    made.ports = replace(made.ports, device=Ceiled())
    made.drive()
    assert cli("roofline", tmp_path, "--plot", tmp_path / "r.svg").code == 0
    assert "least traffic of a call in MB" in (tmp_path / "r.svg").read_text()
