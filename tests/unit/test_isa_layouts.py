"""Triton's GPU IR: layouts, conversions, the pipeline, and shared layouts whose rows begin in one bank."""

from ridgeline.sandbox.profiles.isa.triton import read_layouts

TTGIR = """#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#shared2 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
  tt.func public @mm(%a: !tt.ptr<f16>) {
    %0 = ttg.local_alloc : () -> !ttg.memdesc<3x64x32xf16, #shared, #smem, mutable>
    %1 = ttg.async_copy_global_to_local %p, %0 : tensor<64x32x!tt.ptr<f16>, #blocked> -> <64x32xf16, #shared>
    %2 = ttg.async_commit_group tokens %1
    %3 = ttg.async_wait %2 {num = 2 : i32}
    %4 = tt.dot %x, %y, %acc : tensor<64x32xf16> * tensor<32x64xf16> -> tensor<64x64xf32, #mma>
    %5 = ttg.convert_layout %4 : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked>
    tt.store %q, %5 : tensor<64x64x!tt.ptr<f32>, #blocked>
"""


def test_layouts_operations_and_what_is_not_swizzled():
    found = read_layouts(TTGIR)
    assert [name.partition(" ")[0] for name in found.names] == ["#blocked", "#mma", "#shared", "#shared1", "#shared2"]
    assert {entry.name: entry.count for entry in found.operations} == {
        "tt.dot": 1, "tt.store": 1, "ttg.async_commit_group": 1, "ttg.async_copy_global_to_local": 1,
        "ttg.async_wait": 1, "ttg.convert_layout": 1, "ttg.local_alloc": 1,
    }  # fmt: skip
    assert [name.partition(" ")[0] for name in found.unswizzled] == ["#shared1"]
