"""Would a cache hit in training: the four-step trace, the eight-step simulation, and what is refused."""

import sys
from importlib.util import find_spec

import pytest

from ridgeline.graph.finding import KeyTerm, Lookup, Simulation
from ridgeline.graph.rules.audit import classify_cache, classify_simulation, simulate_symbols, trace_key
from ridgeline.sandbox.audit.examine import audit
from ridgeline.sandbox.audit.simulation import read_recording, simulate

WEIGHT = (KeyTerm(text="id(w)", name="w", part="weight"), KeyTerm(text="w._version", name="w", part="weight_version"))
STALE = WEIGHT[:1]
ACTIVATION = (KeyTerm(text="id(x)", name="x", part="activation"),)
GRADIENT = (KeyTerm(text="id(grad_out)", name="grad_out", part="gradient"),)
LAYOUT = (KeyTerm(text="x.shape", name="x", part="layout"),)
ADDRESS = (KeyTerm(text="x.data_ptr()", name="x", part="address"),)


@pytest.mark.feature("F048")
@pytest.mark.parametrize(
    ("key", "told"),
    [
        (WEIGHT, "4/4"),
        ((*WEIGHT, *LAYOUT), "4/4"),
        (ACTIVATION, "0/4"),
        (GRADIENT, "0/4"),
        ((*ACTIVATION, *LAYOUT), "0/4"),
        ((*WEIGHT, *ACTIVATION), "0/4"),
        (LAYOUT, None),
        (ADDRESS, None),
        ((), None),
    ],
)
def test_the_trace_of_four_steps(key, told):
    rate = trace_key(key)
    assert (str(rate) if rate else None) == told


def test_a_weight_without_its_version_gives_another_steps_result():
    rate = trace_key(STALE)
    assert rate is not None
    assert rate.stale == 6


@pytest.mark.feature("F048")
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("id(x)", "overfit"),
        ("(id(weight), weight._version)", "bounded"),
        ("id(weight)", "refused"),
        ("x.data_ptr()", "undecided"),
    ],
)
def test_below_half_a_cache_is_rolled_back(key, expected):
    text = f"C = {{}}\ndef f(x, weight):\n    k = {key}\n    if k not in C: C[k] = mine(x, weight)\n    return C[k]\n"
    assert [classify_cache(one).answer for one in audit("k.py", text) if one.key][:1] == [expected]


@pytest.mark.feature("F049", "F050")
@pytest.mark.parametrize(
    ("key", "expected"),
    [(WEIGHT, "bounded"), (STALE, "refused"), (ACTIVATION, "overfit"), (GRADIENT, "overfit"), (ADDRESS, "refused")],
)
def test_the_simulation_on_symbols(key, expected):
    assert classify_simulation(simulate_symbols(key)).answer == expected


@pytest.mark.feature("F049", "F050")
@pytest.mark.parametrize(
    ("key", "expected"), [(WEIGHT, "bounded"), (STALE, "refused"), (ACTIVATION, "overfit"), (ADDRESS, "overfit")]
)
def test_the_simulation_in_the_targets_interpreter(key, expected, stand_in_torch):
    found = simulate(key, python=stand_in_torch)
    assert found.method == "tensors", found.detail
    assert len(found.lookups) == 16
    assert classify_simulation(found).answer == expected


@pytest.mark.feature("F049")
@pytest.mark.parametrize("python", ["/no/such/python", "false"], ids=["no interpreter", "no answer"])
def test_what_cannot_be_simulated_is_refused(python):
    found = simulate(WEIGHT, python=python)
    assert found.method == "unavailable"
    assert classify_simulation(found).answer == "refused"


@pytest.mark.parametrize("text", ["x.__class__", "open('a')", "x.mul_(2)", "[y for y in x]", "(lambda: 1)()", "x +"])
def test_a_key_that_does_more_than_ask_is_not_evaluated(text, stand_in_torch):
    found = simulate((KeyTerm(text=text, name="x", part="activation"),), python=stand_in_torch)
    assert found.method == "unavailable"


def test_recorded_keys_stand_in_for_tensors():
    twice = [Lookup(step=step, role="weight", key=f"w@{step}", version=step) for step in range(8) for _ in (0, 1)]
    assert classify_simulation(read_recording(twice)).answer == "bounded"
    assert classify_simulation(read_recording(twice[::2])).answer == "overfit"
    assert classify_simulation(read_recording([])).answer == "refused"
    reused = [Lookup(step=step, role="activation", key="same") for step in range(8)]
    assert classify_simulation(read_recording(reused)).answer == "overfit"
    assert "another step's data" in classify_simulation(read_recording(reused)).why
    assert classify_simulation(Simulation(method="symbols")).answer == "refused"


@pytest.fixture(scope="module")
def stand_in_torch(tmp_path_factory):
    """An interpreter whose torch has what the simulation asks of tensors, where the real one is not installed."""
    folder = tmp_path_factory.mktemp("torch")
    (folder / "torch.py").write_text(STAND_IN)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


STAND_IN = """
import contextlib

class Tensor:
    def __init__(self): self._version, self.shape = 0, (4, 4)
    def add_(self, _): self._version += 1
    def data_ptr(self): return id(self)

def ones(*_): return Tensor()
def no_grad(): return contextlib.nullcontext()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("key", "expected"), [(WEIGHT, "bounded"), (STALE, "refused"), (ACTIVATION, "overfit")])
def test_the_simulation_with_the_real_torch(key, expected):
    if find_spec("torch") is None:
        pytest.skip("this interpreter has no torch")
    assert classify_simulation(simulate(key, python=sys.executable)).answer == expected
