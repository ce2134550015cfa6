import torch

WORKSPACES = {}


def workspace(like):
    """Scratch memory by device, shape and dtype; it never holds a result."""
    key = (like.device, like.shape, like.dtype)
    if key not in WORKSPACES:
        WORKSPACES[key] = torch.empty_like(like)
    return WORKSPACES[key]


def layernorm(x, gamma, beta, out):
    centred = workspace(x)
    torch.sub(x, x.mean(dim=-1, keepdim=True), out=centred)
    scale = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + 1e-5)
    torch.addcmul(beta, centred.mul_(scale), gamma, out=out)
