def sum_int64(x, out):
    x.sum(keepdims=True, out=out)
