"""Transposed 3x3x3 convolution of bf16 [N, CI, D, H, W], stride 2, padding 1, dilation 2: a program gathers a block of the result."""

import torch
import triton
import triton.language as tl


@triton.jit
def conv_transpose3d_kernel(
    out_ptr, x_ptr, w_ptr, CI, CO, D, H, W, BLOCK_P: tl.constexpr, BLOCK_CI: tl.constexpr, BLOCK_CO: tl.constexpr
):
    OD, OH, OW = 2 * D + 1, 2 * H + 1, 2 * W + 1
    n = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    od, oh, ow = at // (OH * OW), at // OW % OH, at % OW
    ci = tl.arange(0, BLOCK_CI)
    co = tl.arange(0, BLOCK_CO)
    acc = tl.zeros([BLOCK_P, BLOCK_CO], dtype=tl.float32)
    for i in range(3):
        d = od + 1 - 2 * i
        for j in range(3):
            h = oh + 1 - 2 * j
            for k in range(3):
                w = ow + 1 - 2 * k
                within = (d >= 0) & (d < 2 * D) & (h >= 0) & (h < 2 * H) & (w >= 0) & (w < 2 * W)
                within = within & (d % 2 == 0) & (h % 2 == 0) & (w % 2 == 0)
                place = (d // 2 * H + h // 2) * W + w // 2
                x = tl.load(
                    x_ptr + (n * CI + ci[None, :]) * D * H * W + place[:, None],
                    mask=within[:, None] & (ci[None, :] < CI),
                    other=0.0,
                )
                weight = tl.load(
                    w_ptr + (ci[:, None] * CO + co[None, :]) * 27 + i * 9 + j * 3 + k,
                    mask=(ci[:, None] < CI) & (co[None, :] < CO),
                    other=0.0,
                )
                acc += tl.dot(x, weight)
    tl.store(
        out_ptr + (n * CO + co[None, :]) * OD * OH * OW + at[:, None],
        acc.to(out_ptr.dtype.element_ty),
        mask=(at[:, None] < OD * OH * OW) & (co[None, :] < CO),
    )


def run(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
    """out = the transposed convolution of contiguous bf16 x [N, CI, D, H, W] with weight [CI, CO, 3, 3, 3], of finite values."""
    n, ci, d, h, w = x.shape
    co = weight.shape[1]
    places = out.shape[2] * out.shape[3] * out.shape[4]
    conv_transpose3d_kernel[lambda meta: (triton.cdiv(places, meta["BLOCK_P"]), n)](
        out,
        x,
        weight,
        ci,
        co,
        d,
        h,
        w,
        BLOCK_P=64,
        BLOCK_CI=max(16, triton.next_power_of_2(ci)),
        BLOCK_CO=max(16, triton.next_power_of_2(co)),
        num_warps=4,
    )
