import torch


def rope_rolled(x, cos, sin, out):
    half = cos.shape[1]
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    torch.add(x * torch.cat((cos, cos), 1)[:, None], turned * torch.cat((sin, sin), 1)[:, None], out=out)
