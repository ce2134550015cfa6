"""Three kernels of known kind, profiled on a real H100, are classified as what they are."""

from pathlib import Path

import pytest

from ridgeline.graph.rules.bound import classify_bound
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.profiles import profile

DATA = Path(__file__).parents[1] / "data" / "ncu"


@pytest.mark.feature("F062")
@pytest.mark.parametrize(
    ("recording", "kernel", "bound", "subclass"),
    [
        ("h100_raw.csv", "softmax_kernel", "memory_bound", "hbm"),
        ("h100_product_and_tiny_raw.csv", "nvjet", "compute_bound", "matrix"),
        ("h100_product_and_tiny_raw.csv", "vectorized_elementwise", "launch_bound", "short"),
    ],
)
def test_a_kernel_of_known_kind_is_classified_rightly(recording, kernel, bound, subclass):
    (found,) = profile(read_recordings(DATA / recording), target=kernel)[:1]
    assert kernel in found.kernel
    said = classify_bound(found)
    assert (said.bound, said.subclass) == (bound, subclass), said.evidence
