import torch

SIDES = [torch.cuda.Stream(), torch.cuda.Stream()]


def gemm(a, b, c):
    here, middle = torch.cuda.current_stream(), a.shape[0] // 2
    for side, part in zip(SIDES, (slice(0, middle), slice(middle, None)), strict=True):
        side.wait_stream(here)
        with torch.cuda.stream(side):
            if a[part].numel():
                torch.mm(a[part], b, out=c[part])
    for side in SIDES:
        here.wait_stream(side)
