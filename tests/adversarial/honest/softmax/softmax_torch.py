import torch


def softmax_library(x, out):
    torch.softmax(x, dim=-1, out=out)


def softmax_log(x, out):
    centred = x - x.amax(dim=1, keepdim=True)
    e = centred.exp_()
    out.copy_(e * e.sum(dim=1, keepdim=True).reciprocal())


def softmax_rows(x, out):
    half = x.shape[0] // 2
    for part in (slice(0, half), slice(half, None)):
        if x[part].numel():
            out[part] = torch.nn.functional.softmax(x[part], dim=1)
