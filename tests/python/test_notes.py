"""The code of the notes that this project implements, with what they print."""

import copy

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.nn import functional as F


def test_gradients_of_a_logistic_layer():
    x, y = torch.ones(5), torch.zeros(3)
    w = torch.randn(5, 3, requires_grad=True)
    b = torch.randn(3, requires_grad=True)
    z = torch.matmul(x, w) + b
    loss = F.binary_cross_entropy_with_logits(z, y)
    loss.backward()
    assert w.grad.shape == (5, 3) and b.grad.shape == (3,)
    assert torch.testing.assert_close(b.grad, torch.sigmoid(z.detach()) / 3) is None


def test_tracking_is_switched_off_by_no_grad_and_detach():
    x, w, b = torch.ones(5), torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    z = torch.matmul(x, w) + b
    assert z.requires_grad
    with torch.no_grad():
        assert not (torch.matmul(x, w) + b).requires_grad
    assert not z.detach().requires_grad


def test_jacobian_products_accumulate_over_two_calls():
    inp = torch.eye(5, requires_grad=True)
    out = (inp + 1).pow(2)
    out.backward(torch.ones_like(inp), retain_graph=True)
    first = inp.grad.clone()
    out.backward(torch.ones_like(inp), retain_graph=True)
    assert torch.equal(inp.grad, first * 2)
    inp.grad.zero_()
    out.backward(torch.ones_like(inp), retain_graph=True)
    assert torch.equal(inp.grad, first)


def test_grad_fn_names_and_printing():
    x = torch.tensor([1.0, 2.0, 3], requires_grad=True)
    y = torch.tensor([4.0, 5.0, 6], requires_grad=True)
    z = x + y
    assert repr(z) == "tensor([5., 7., 9.], grad_fn=<AddBackward0>)"
    assert z.grad_fn.name() == "AddBackward0"
    s = z.sum()
    assert s.grad_fn.next_functions[0][0] == z.grad_fn
    s.backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_power_gradient():
    x = torch.tensor([1.0, 2.0, 3], requires_grad=True)
    (x**2 + torch.tensor([4.0, 5.0, 6])).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_q_equals_3a_cubed_minus_b_squared():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = torch.tensor([6.0, 4.0], requires_grad=True)
    q = 3 * a**3 - b**2
    q.backward(gradient=torch.tensor([1.0, 1.0]))
    assert (9 * a**2 == a.grad).tolist() == [True, True]
    assert (-2 * b == b.grad).tolist() == [True, True]


def test_retain_grad_shows_gradients_of_intermediates():
    x, a, b, c, d = (torch.tensor(v, requires_grad=True) for v in (3.0, 4.0, 4.0, 4.0, 4.0))
    y = a * x + b
    y.retain_grad()
    w = c * y + d
    w.retain_grad()
    w.backward()
    assert [t.grad.item() for t in (x, a, b, y, c, d, w)] == [16.0, 12.0, 4.0, 4.0, 16.0, 1.0, 1.0]


def test_a_hook_doubles_the_gradient_until_it_is_removed():
    v = torch.tensor([0.0, 0.0, 0.0], requires_grad=True)
    h = v.register_hook(lambda grad: grad * 2)
    v.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert v.grad.tolist() == [2.0, 4.0, 6.0]
    h.remove()
    v.grad = None
    v.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert v.grad.tolist() == [1.0, 2.0, 3.0]


def test_detach_shares_memory():
    v = torch.tensor([0.0, 0.0, 0.0], requires_grad=True)
    new = v.detach()
    new[0] = 5
    assert repr(v) == "tensor([5., 0., 0.], requires_grad=True)"


def test_leaves():
    a = torch.rand(10, requires_grad=True)
    assert a.is_leaf and not (a + 2).is_leaf
    assert torch.rand(10).is_leaf
    assert torch.rand(10).double().requires_grad_().is_leaf


def test_backward_twice_says_retain_graph():
    a = torch.rand(1, 4, requires_grad=True)
    c = a**2 * 2
    d, e = c.mean(), c.sum()
    d.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        e.backward()


def test_tensor_basics():
    tensor = torch.ones(4, 4)
    tensor[:, 1] = 0
    assert tensor.sum().item() == 12.0
    t1 = torch.cat([tensor, tensor, tensor], dim=1)
    assert t1.shape == torch.Size([4, 12])
    y3 = torch.rand_like(tensor)
    torch.matmul(tensor, tensor.T, out=y3)
    assert torch.equal(y3, tensor @ tensor.T)
    z3 = torch.rand_like(tensor)
    torch.mul(tensor, tensor, out=z3)
    assert torch.equal(z3, tensor * tensor)
    tensor.add_(5)
    assert tensor[0].tolist() == [6.0, 5.0, 6.0, 6.0]


def test_numpy_bridge_shares_memory():
    np = pytest.importorskip("numpy")
    t = torch.ones(5)
    n = t.numpy()
    t.add_(1)
    assert n.tolist() == [2.0] * 5
    n = np.ones(5)
    t = torch.from_numpy(n)
    np.add(n, 1, out=n)
    assert repr(t) == "tensor([2., 2., 2., 2., 2.], dtype=torch.float64)"


class Net(nn.Module):
    """The LeNet of the notes."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def test_lenet_trains_and_its_graph_can_be_walked():
    net = Net()
    assert len(list(net.parameters())) == 10
    assert next(net.parameters()).shape == (6, 1, 5, 5)
    out = net(torch.randn(1, 1, 32, 32))
    net.zero_grad()
    out.backward(torch.randn(1, 10))
    target = torch.randn(10).view(1, -1)
    criterion = nn.MSELoss()
    loss = criterion(net(torch.randn(1, 1, 32, 32)), target)
    assert loss.grad_fn.name() == "MseLossBackward0"
    assert loss.grad_fn.next_functions[0][0].name() == "AddmmBackward0"
    before = copy.deepcopy(net.state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    optimizer.zero_grad()
    loss.backward()
    assert net.conv1.bias.grad.abs().sum() > 0
    optimizer.step()
    assert not torch.equal(net.conv1.weight, before["conv1.weight"])


def test_gradient_accumulation_equals_one_large_batch():
    model = nn.Linear(3, 1)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    nn.MSELoss()(model(x), y).backward()
    whole = model.weight.grad.clone()
    model.zero_grad()
    for i in range(0, 8, 2):
        (nn.MSELoss()(model(x[i : i + 2]), y[i : i + 2]) / 4).backward()
    torch.testing.assert_close(model.weight.grad, whole)


def test_user_functions_take_part():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            result = i.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (result,) = ctx.saved_tensors
            return grad_output * result

    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward"
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().exp())
