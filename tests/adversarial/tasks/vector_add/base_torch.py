def vector_add(x, y, out):
    out.copy_(x)
    out.add_(y)
