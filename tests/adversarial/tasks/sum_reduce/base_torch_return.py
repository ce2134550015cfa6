def sum_reduce(x):
    return x.double().sum().reshape(1).float()
