def transpose(x):
    return x.t().contiguous()
