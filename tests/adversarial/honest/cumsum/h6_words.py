"""Running sums; the layout is that of http://example.org/scan#blocked // see the section "time steps"."""

import torch

LAYOUT = "http://example.org/scan#blocked"
URL = 'https://example.org/#"quoted" // not a comment'


def cumsum(x, out):
    time_steps = x.shape[1]  # elapsed_tokens so far: 0
    elapsed_tokens = time_steps // 2
    torch.cumsum(x[:, :elapsed_tokens], dim=1, out=(low := torch.empty(x.shape[0], elapsed_tokens)))
    out[:, :elapsed_tokens] = low
    out[:, elapsed_tokens:] = torch.cumsum(x[:, elapsed_tokens:], dim=1)
    if elapsed_tokens:
        out[:, elapsed_tokens:] += low[:, -1:]
