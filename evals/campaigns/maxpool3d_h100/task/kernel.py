"""Max pooling of a bf16 array [N, C, D, H, W], window 3, stride 2, padding 1, dilation 3: a program for each row of the result."""

import torch
import triton
import triton.language as tl


@triton.jit
def maxpool3d_kernel(out_ptr, x_ptr, D, H, W, OD, OH, OW, BLOCK_W: tl.constexpr):
    plane = tl.program_id(2).to(tl.int64)
    od = tl.program_id(1) // OH
    oh = tl.program_id(1) % OH
    ow = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)
    x_plane = x_ptr + plane * D * H * W
    most = tl.full([BLOCK_W], -float("inf"), dtype=tl.float32)
    for i in tl.static_range(3):
        d = od * 2 - 1 + i * 3
        for j in tl.static_range(3):
            h = oh * 2 - 1 + j * 3
            inside = (d >= 0) & (d < D) & (h >= 0) & (h < H)
            for l in tl.static_range(3):
                w = tl.where(inside, ow * 2 - 1 + l * 3, -1)
                within = (w >= 0) & (w < W) & (ow < OW)
                x = tl.load(x_plane + (d * H + h) * W + w, mask=within, other=-float("inf"))
                most = tl.maximum(most, x.to(tl.float32))
    tl.store(out_ptr + ((plane * OD + od) * OH + oh) * OW + ow, most.to(out_ptr.dtype.element_ty), mask=ow < OW)


def run(x: torch.Tensor, out: torch.Tensor) -> None:
    """out[n, c] = the largest of each window of x[n, c] for a contiguous bf16 array of finite values."""
    n, c, d, h, w = x.shape
    od, oh, ow = out.shape[2:]
    maxpool3d_kernel[lambda meta: (triton.cdiv(ow, meta["BLOCK_W"]), od * oh, n * c)](
        out, x, d, h, w, od, oh, ow, BLOCK_W=64, num_warps=4
    )
