"""What vmap hides, taken out of it and put back."""

import torch
from torch import Tensor
from torch.func import vmap

from unalike import mapped


def test_a_row_of_all_clients_is_in_one_piece():
    x, pieces = torch.arange(24).reshape(2, 3, 4), list[bool]()

    def one(own: Tensor) -> Tensor:
        turned = mapped.by_row(own)
        pieces.extend(mapped.raw(turned[s]).is_contiguous() for s in range(3))
        return torch.stack([turned[s] for s in range(3)])

    assert torch.equal(vmap(one)(x), x)
    assert all(pieces)
    assert mapped.by_row(x) is x, "outside of a map there is nothing to turn"


def test_rows_of_one_tensor_by_numbers_of_each_client():
    x, index = torch.randn(7, 2, 3), torch.tensor([[0, 6], [3, 3], [5, 1]])
    assert torch.equal(vmap(lambda i: mapped.rows(x, i))(index), x[index])
    own = torch.randn(3, 7)
    assert torch.equal(vmap(mapped.rows)(own, index), own.gather(1, index))
    assert torch.equal(mapped.rows(x, index[0]), x[index[0]])
    nested = vmap(vmap(lambda i: mapped.rows(x, i)))(index[:, :, None])
    assert torch.equal(nested, x[index[:, :, None]])
