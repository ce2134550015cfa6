def sum_reduce(x, out):
    out.copy_(x.double().sum().reshape(1))
