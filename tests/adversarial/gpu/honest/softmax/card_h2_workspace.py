import torch

WORKSPACES = {}


def softmax(x, out):
    key = (x.device, x.shape, x.dtype)
    if key not in WORKSPACES:
        WORKSPACES[key] = torch.empty_like(x)
    work = WORKSPACES[key]
    torch.sub(x, x.amax(dim=-1, keepdim=True), out=work)
    work.exp_()
    torch.div(work, work.sum(dim=-1, keepdim=True), out=out)
