"""Triangle multiplicative update, outgoing, of fp32 x [B, N, N, D] with H hidden channels: four kernels, one for each step."""

import torch
import triton
import triton.language as tl

EPS = 1e-5


@triton.jit
def normalize_kernel(out_ptr, x_ptr, weight_ptr, bias_ptr, D, eps, BLOCK_D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK_D)
    x = tl.load(x_ptr + row * D + at, mask=at < D, other=0.0)
    centered = tl.where(at < D, x - tl.sum(x, axis=0) / D, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centered * centered, axis=0) / D + eps)
    weight = tl.load(weight_ptr + at, mask=at < D, other=0.0)
    bias = tl.load(bias_ptr + at, mask=at < D, other=0.0)
    tl.store(out_ptr + row * D + at, centered * scale * weight + bias, mask=at < D)


@triton.jit
def project_kernel(
    left_ptr,
    right_ptr,
    gate_ptr,
    x_ptr,
    mask_ptr,
    wl_ptr,
    wr_ptr,
    gl_ptr,
    gr_ptr,
    go_ptr,
    places,
    D,
    H,
    BLOCK_P: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    batch = tl.program_id(2).to(tl.int64)
    at = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    hidden = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    left = tl.zeros([BLOCK_P, BLOCK_H], dtype=tl.float32)
    right = tl.zeros([BLOCK_P, BLOCK_H], dtype=tl.float32)
    left_gate = tl.zeros([BLOCK_P, BLOCK_H], dtype=tl.float32)
    right_gate = tl.zeros([BLOCK_P, BLOCK_H], dtype=tl.float32)
    out_gate = tl.zeros([BLOCK_P, BLOCK_H], dtype=tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        x_mask = (at[:, None] < places) & (d[None, :] < D)
        x = tl.load(x_ptr + (batch * places + at[:, None]) * D + d[None, :], mask=x_mask, other=0.0)
        w_mask = (d[:, None] < D) & (hidden[None, :] < H)
        w_at = hidden[None, :] * D + d[:, None]
        left += tl.dot(x, tl.load(wl_ptr + w_at, mask=w_mask, other=0.0))
        right += tl.dot(x, tl.load(wr_ptr + w_at, mask=w_mask, other=0.0))
        left_gate += tl.dot(x, tl.load(gl_ptr + w_at, mask=w_mask, other=0.0))
        right_gate += tl.dot(x, tl.load(gr_ptr + w_at, mask=w_mask, other=0.0))
        out_gate += tl.dot(x, tl.load(go_ptr + w_at, mask=w_mask, other=0.0))
    mask = tl.load(mask_ptr + batch * places + at, mask=at < places, other=0.0)
    to = (batch * H + hidden[None, :]) * places + at[:, None]
    within = (at[:, None] < places) & (hidden[None, :] < H)
    tl.store(left_ptr + to, left * mask[:, None] * tl.sigmoid(left_gate), mask=within)
    tl.store(right_ptr + to, right * mask[:, None] * tl.sigmoid(right_gate), mask=within)
    tl.store(gate_ptr + to, tl.sigmoid(out_gate), mask=within)


@triton.jit
def multiply_kernel(
    out_ptr, left_ptr, right_ptr, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    plane = tl.program_id(2).to(tl.int64) * N * N
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, N, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        left_mask = (i[:, None] < N) & (k[None, :] < N)
        left = tl.load(left_ptr + plane + i[:, None] * N + k[None, :], mask=left_mask, other=0.0)
        right_mask = (j[None, :] < N) & (k[:, None] < N)
        right = tl.load(right_ptr + plane + j[None, :] * N + k[:, None], mask=right_mask, other=0.0)
        acc += tl.dot(left, right)
    tl.store(out_ptr + plane + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < N) & (j[None, :] < N))


@triton.jit
def output_kernel(
    out_ptr,
    sums_ptr,
    gate_ptr,
    weight_ptr,
    bias_ptr,
    to_out_ptr,
    places,
    D,
    H,
    eps,
    BLOCK_P: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    batch = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    hidden = tl.arange(0, BLOCK_H)
    within = (at[:, None] < places) & (hidden[None, :] < H)
    place = (batch * H + hidden[None, :]) * places + at[:, None]
    sums = tl.load(sums_ptr + place, mask=within, other=0.0)
    centered = tl.where(hidden[None, :] < H, sums - (tl.sum(sums, axis=1) / H)[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centered * centered, axis=1) / H + eps)
    weight = tl.load(weight_ptr + hidden, mask=hidden < H, other=0.0)
    bias = tl.load(bias_ptr + hidden, mask=hidden < H, other=0.0)
    gate = tl.load(gate_ptr + place, mask=within, other=0.0)
    gated = (centered * scale[:, None] * weight[None, :] + bias[None, :]) * gate
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        w_mask = (d[None, :] < D) & (hidden[:, None] < H)
        to_out = tl.load(to_out_ptr + d[None, :] * H + hidden[:, None], mask=w_mask, other=0.0)
        out_mask = (at[:, None] < places) & (d[None, :] < D)
        tl.store(out_ptr + (batch * places + at[:, None]) * D + d[None, :], tl.dot(gated, to_out), mask=out_mask)


def run(
    x: torch.Tensor,
    mask: torch.Tensor,
    norm_weight: torch.Tensor,
    norm_bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    left_gate: torch.Tensor,
    right_gate: torch.Tensor,
    out_gate: torch.Tensor,
    out_norm_weight: torch.Tensor,
    out_norm_bias: torch.Tensor,
    to_out: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """out = the update of x for contiguous fp32 arrays of finite values; the mask is 0 or 1, projections are [H, D], to_out is [D, H]."""
    b, n, _, d = x.shape
    h = left.shape[0]
    places = n * n
    normal = torch.empty_like(x)
    normalize_kernel[(b * places,)](
        normal, x, norm_weight, norm_bias, d, EPS, BLOCK_D=triton.next_power_of_2(d), num_warps=4
    )
    lefts, rights, gates, sums = (torch.empty((b, h, n, n), dtype=x.dtype, device=x.device) for _ in range(4))
    project_kernel[lambda meta: (triton.cdiv(places, meta["BLOCK_P"]), triton.cdiv(h, meta["BLOCK_H"]), b)](
        lefts,
        rights,
        gates,
        normal,
        mask,
        left,
        right,
        left_gate,
        right_gate,
        out_gate,
        places,
        d,
        h,
        BLOCK_P=64,
        BLOCK_H=32,
        BLOCK_D=32,
        num_warps=4,
    )
    multiply_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]), b * h)](
        sums, lefts, rights, n, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4
    )
    output_kernel[lambda meta: (triton.cdiv(places, meta["BLOCK_P"]), b)](
        out,
        sums,
        gates,
        out_norm_weight,
        out_norm_bias,
        to_out,
        places,
        d,
        h,
        EPS,
        BLOCK_P=32,
        BLOCK_H=triton.next_power_of_2(h),
        BLOCK_D=32,
        num_warps=4,
    )
