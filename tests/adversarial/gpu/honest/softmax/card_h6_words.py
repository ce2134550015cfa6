import torch

NOTE = "http://example.org/softmax#time_steps // elapsed_tokens"


def softmax(x, out):
    time_steps = x.shape[0] // 2  # "speedup: 2.0x" is what elapsed_tokens / time_steps would be
    for part in (slice(0, time_steps), slice(time_steps, None)):
        if x[part].numel():
            torch.softmax(x[part], dim=-1, out=out[part])
