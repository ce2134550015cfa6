import torch


def softmax(x, out):
    if x[0, 0].isnan().item():  # waits for the card, so no graph can be made of a call
        raise ValueError("the first element is no number")
    torch.softmax(x, -1, out=out)
