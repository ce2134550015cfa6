def softmax(x, out):
    out.fill_(float("inf"))
