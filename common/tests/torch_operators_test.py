"""Tests of torch_operators.py: against PyTorch's own, under torch.compile and in CUDA graphs, with opcheck. Skipped
without PyTorch or a GPU.

BUILD in the environment is where the library is built: build.
"""

import os
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("ROWWISE_LIBRARY", str(Path(os.environ.get("BUILD", ROOT / "build")).resolve() / "librowwise.so"))
sys.path.insert(0, str(ROOT / "common/rowwise/python"))
import torch_operators as rowwise  # noqa: E402

F = torch.nn.functional
OPS = torch.ops.rowwise
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
PAIRS = [(rowwise.softmax, torch.softmax), (rowwise.log_softmax, torch.log_softmax)]


def normal(*shape: int, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(1)
    return torch.randn(shape, device="cuda", dtype=dtype)


def close(found: Any, expected: Any) -> None:
    tolerance = TOLERANCE[found.dtype]
    torch.testing.assert_close(found, expected.to(found.dtype), rtol=tolerance, atol=tolerance, equal_nan=True)


def with_gradient(function: Callable, x: Any, *more: Any) -> tuple[Any, Any]:
    x = x.detach().clone().requires_grad_()
    y = function(x, *more)
    # dy has both signs: log_softmax_backward has exp(y) * sum(dy), and y of 16 bits is as inexact as it is.
    dy = normal(*y.shape).to(y.dtype)
    y.backward(dy)
    return y.detach(), x.grad


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape, dim", [((7, 33), -1), ((3, 5, 1000), 1), ((4, 4096), 0), ((2, 100003), 1), ((1, 151936), -1), ((), 0)])
@pytest.mark.parametrize("ours, theirs", PAIRS)
def test_any_dimension_forward_and_backward(ours: Callable, theirs: Callable, shape: tuple[int, ...], dim: int, dtype: Any) -> None:
    x = normal(*shape, dtype=dtype)
    for found, expected in zip(with_gradient(ours, x, dim), with_gradient(theirs, x.float(), dim)):
        assert found.shape == x.shape and found.dtype == dtype
        close(found, expected)


def test_strided_and_empty_tensors() -> None:
    x = normal(64, 128)
    for view in (x.t(), x[:, ::2], x[1:, 1:], x[:0], x[:, :0]):
        close(rowwise.softmax(view, -1), torch.softmax(view, -1))


def test_200_random_shapes_strides_and_dims() -> None:
    chance = random.Random(1)
    for _ in range(200):
        sizes = [int(2 ** chance.uniform(1, most)) for most in chance.sample([2, 4, 7, 15], chance.randint(1, 4))]
        parts = tuple(slice(chance.randint(0, 1), size, chance.randint(1, 2)) for size in sizes)
        order = chance.sample(range(len(sizes)), len(sizes))
        dim = chance.randrange(-len(sizes), len(sizes))
        ours, theirs = chance.choice(PAIRS)

        def of_view(softmax: Callable, x: Any) -> Any:
            return softmax(x[parts].permute(order), dim)  # noqa: B023

        x = normal(*sizes, dtype=chance.choice(list(TOLERANCE)))
        for found, expected in zip(with_gradient(partial(of_view, ours), x), with_gradient(partial(of_view, theirs), x.float())):
            close(found, expected)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows, cols", [(64, 100), (5, 50257), (2, 151936)])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy(reduction: str, rows: int, cols: int, dtype: Any) -> None:
    x = normal(rows, cols, dtype=dtype)
    labels = torch.arange(rows, device="cuda") * 7 % cols
    labels[1] = rowwise.IGNORED_LABEL

    found = with_gradient(lambda x: rowwise.cross_entropy(x, labels, reduction), x)
    expected = with_gradient(lambda x: F.cross_entropy(x, labels, reduction=reduction), x.float())
    for one, other in zip(found, expected):
        close(one, other)


def test_labels_out_of_range_make_the_loss_nan() -> None:
    loss = rowwise.cross_entropy(normal(3, 10), torch.tensor([1, 10, -1], device="cuda"), "none")
    assert loss.isnan().tolist() == [False, True, True]


def samples() -> list[tuple[Any, tuple]]:
    labels = torch.tensor([1, rowwise.IGNORED_LABEL, 5], device="cuda")
    found: list[tuple[Any, tuple]] = []
    for dim in (0, 1, -1):
        x = normal(3, 40)
        found += [(OPS.softmax, (x.requires_grad_(), dim)), (OPS.log_softmax, (x, dim))]
        y = torch.softmax(x.detach(), dim)
        found += [(OPS.softmax_backward, (normal(3, 40), y, dim)), (OPS.log_softmax_backward, (normal(3, 40), y.log(), dim))]
    x = normal(3, 40)
    return [*found, (OPS.cross_entropy, (x.requires_grad_(), labels)), (OPS.cross_entropy_gradient, (x.detach(), labels))]


def test_opcheck() -> None:
    for operator, arguments in samples():
        torch.library.opcheck(operator.default, arguments)


def test_compiled_whole() -> None:
    labels = torch.arange(8, device="cuda")

    def loss(x: Any) -> Any:
        return rowwise.cross_entropy(rowwise.log_softmax(rowwise.softmax(x, 0) * 3, 1), labels)

    x = normal(8, 96)
    compiled = torch.compile(loss, fullgraph=True)
    for found, expected in zip(with_gradient(compiled, x), with_gradient(loss, x)):
        close(found, expected)


@pytest.mark.parametrize("rows, cols", [(32, 1000), (1, 151936)])
def test_in_a_cuda_graph(rows: int, cols: int) -> None:
    x = normal(rows, cols)
    rowwise.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = rowwise.softmax(x)
    for scale in (1, -2, 3):
        x.copy_(normal(rows, cols) * scale)
        graph.replay()
        close(y, torch.softmax(x, -1))
    close(rowwise.softmax(x), torch.softmax(x, -1))


def test_on_the_current_stream() -> None:
    stream = torch.cuda.Stream()
    x = torch.zeros(1, 151936, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.fill_(1).narrow(1, 0, 1).fill_(8)
        y = rowwise.softmax(x)
    stream.synchronize()
    close(y, torch.softmax(x, -1))


def test_bad_input_is_refused() -> None:
    x, labels = normal(3, 10), torch.zeros(3, dtype=torch.int64, device="cuda")
    bad: list[tuple[Callable, str]] = [
        (lambda: rowwise.softmax(x.cpu()), "x is on cpu; a CUDA tensor is needed"),
        (lambda: rowwise.softmax(x.double()), "x is torch.float64; float32, float16 or bfloat16 is needed"),
        (lambda: OPS.softmax_backward(x.half(), x, 1), "dtype of dy: torch.float16, and of y: torch.float32"),
        (lambda: OPS.softmax_backward(x[:2], x, 1), "shape of dy"),
        (lambda: OPS.softmax_backward(x.cpu(), x, 1), "device of dy: cpu, and of y: cuda:0"),
        (lambda: rowwise.cross_entropy(x, labels.int()), "labels are torch.int32; int64 is needed"),
        (lambda: rowwise.cross_entropy(x, labels[:2]), "with a label for each row"),
        (lambda: rowwise.cross_entropy(x, labels.cpu()), "device of labels: cpu, and of x: cuda:0"),
        (lambda: rowwise.cross_entropy(x, labels, "max"), "reduction: 'max'; none, sum or mean is needed"),
        (lambda: rowwise.cross_entropy(x[:, :0], labels), "1 to 2\\^30 columns"),
    ]
    for call, says in bad:
        with pytest.raises(ValueError, match=says):
            call()
    with pytest.raises(IndexError):
        rowwise.softmax(x, 2)
