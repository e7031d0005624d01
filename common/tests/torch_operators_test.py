"""Tests of the Python package rowwise: against PyTorch's own operators, under torch.compile and in CUDA graphs, with opcheck.
Skipped without PyTorch or a GPU.

BUILD in the environment is where the library is built: build. The package is built there, too, unless ROWWISE_PACKAGE names a folder
that has it.
"""

import os
import random
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]


def built_package() -> Path:
    """The folder with the package: compiled with the library that BUILD has."""
    build = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
    folder = build / "test-torch"
    options = [f"-DCMAKE_PREFIX_PATH={folder}/library", f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (
        ["--install", build / "common/rowwise", "--prefix", folder / "library"],
        ["-S", ROOT / "common/rowwise/torch", "-B", folder / "build", *options],
        ["--build", folder / "build", "--parallel", str(os.cpu_count())],
        ["--install", folder / "build", "--component", "torch", "--prefix", folder / "package"],
    ):
        done = subprocess.run(["cmake", *command], text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "package"


sys.path.insert(0, os.environ.get("ROWWISE_PACKAGE") or str(built_package()))
import rowwise  # noqa: E402
import rowwise.functional  # noqa: E402

F = torch.nn.functional
OPS = torch.ops.rowwise
drop_in = rowwise.functional
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
PAIRS = [(rowwise.softmax, torch.softmax), (rowwise.log_softmax, torch.log_softmax)]


def normal(*shape: int, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(1)
    return torch.randn(shape, device="cuda", dtype=dtype)


def close(found: Any, expected: Any, tolerance: float | None = None) -> None:
    tolerance = tolerance or TOLERANCE[found.dtype]
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
    close(rowwise.cross_entropy(x, labels, reduction), expected[0])


@pytest.mark.parametrize("rows", [1, 16384, 100_000, 5_000_000])
def test_losses_of_any_number_of_rows_are_reduced(rows: int) -> None:
    """By one block, or by several."""
    x, labels = normal(rows, 3), torch.arange(rows, device="cuda") % 3
    labels[rows // 2 + 1 :] = rowwise.IGNORED_LABEL
    for reduction in ("sum", "mean"):
        expected = F.cross_entropy(x.double(), labels, reduction=reduction)
        close(rowwise.cross_entropy(x, labels, reduction), expected)


def test_no_label_that_counts() -> None:
    labels = torch.full((3,), rowwise.IGNORED_LABEL, device="cuda")
    loss, dx = with_gradient(lambda x: rowwise.cross_entropy(x, labels), normal(3, 10))
    assert loss.isnan() and not dx.any()
    assert rowwise.cross_entropy(normal(0, 10), labels[:0]).isnan()


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_graph_that_is_kept_has_the_same_gradient_again(reduction: str, dtype: Any) -> None:
    """Although the gradient of a graph that is not kept is multiplied in place."""
    x, labels = normal(5, 1001, dtype=dtype).requires_grad_(), torch.arange(5, device="cuda")
    loss = rowwise.cross_entropy(x, labels, reduction)
    three = torch.full(loss.shape, 3.0, device="cuda")
    first, *others = [torch.autograd.grad(loss, x, three, retain_graph=kept)[0].clone() for kept in (True, True, False)]
    assert all(torch.equal(first, other) for other in others)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, x, three)


def test_derivatives_of_derivatives() -> None:
    """Softmax has PyTorch's second derivative. All others are refused."""
    x, labels = normal(3, 10).requires_grad_(), torch.arange(3, device="cuda")

    def second(function: Callable) -> Any:
        (dx,) = torch.autograd.grad(function(x), x, normal(*function(x).shape), create_graph=True)
        return torch.autograd.grad(dx, x, normal(3, 10))[0]

    for ours, theirs in PAIRS:
        close(second(partial(ours, dim=-1)), second(partial(theirs, dim=-1)))
    for function in (
        partial(rowwise.cross_entropy, labels=labels),
        partial(rowwise.cross_entropy, labels=labels, reduction="none"),
    ):
        with pytest.raises(RuntimeError, match="derivative for rowwise::cross_entropy's gradient is not implemented"):
            second(function)
    y = x.detach().softmax(-1).requires_grad_()
    for function in (
        lambda: OPS.softmax_backward(x, y, -1),
        lambda: OPS.log_softmax_backward(x, y, -1),
        lambda: OPS.cross_entropy_gradient(x, labels)[1],
    ):
        with pytest.raises(RuntimeError, match="is not implemented"):
            function().sum().backward()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), x.detach())
        for function in (lambda: rowwise.softmax(dual), lambda: rowwise.cross_entropy(dual, labels)):
            with pytest.raises(NotImplementedError, match="has no forward-mode derivative"):
                function()


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_under_autocast_as_pytorch(dtype: Any) -> None:
    x, labels = normal(3, 10, dtype=dtype), torch.arange(3, device="cuda")
    pairs = [*PAIRS, (lambda x, _: rowwise.cross_entropy(x, labels), lambda x, _: F.cross_entropy(x, labels))]
    for ours, theirs in pairs:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found, expected = with_gradient(ours, x, -1), with_gradient(theirs, x, -1)
        for one, other in zip(found, expected):
            assert one.dtype == other.dtype
            close(one, other, TOLERANCE[dtype])  # PyTorch rounds the logarithm that its loss is made of to x's type


# ---- rowwise.functional, which takes everything that PyTorch takes.


class Calls(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Counts the calls of the operators."""

    number = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += function.namespace == "rowwise"
        return function(*args, **(kwargs or {}))


def test_functional_calls_the_operators_where_they_can() -> None:
    x, labels = normal(6, 10), torch.arange(6, device="cuda")
    half, weight, probabilities = x.half(), normal(10).abs(), x.softmax(-1)
    softmax: list[tuple[bool, tuple, dict]] = [
        (True, (x, -1), {}),
        (True, (half, 0), {}),
        (True, (x,), {"dim": 1, "dtype": torch.float32}),
        (False, (half, -1), {"dtype": torch.float32}),
        (False, (x, -1), {"dtype": torch.float16}),
        (False, (x.double(), -1), {}),
        (False, (x.cpu(), -1), {}),
    ]
    cross_entropy: list[tuple[bool, tuple, dict]] = [
        (True, (x, labels), {}),
        (True, (half, labels), {}),
        (True, (x, labels), {"reduction": "none"}),
        (True, (half, labels), {"reduction": "sum"}),
        (True, (torch.nn.Parameter(x), labels), {}),
        (False, (x, labels, weight), {}),
        (False, (x, labels), {"size_average": False}),
        (False, (x, labels), {"reduce": False}),
        (False, (x, labels), {"ignore_index": 3}),
        (False, (x, labels), {"label_smoothing": 0.1}),
        (False, (x, probabilities), {}),
        (False, (x[0], labels[0]), {}),
        (False, (x.view(3, 2, 10), torch.zeros(3, 10, dtype=torch.int64, device="cuda")), {}),
        (False, (x.double(), labels), {}),
        (False, (x.cpu(), labels.cpu()), {}),
    ]
    cases = [("softmax", softmax), ("log_softmax", softmax), ("cross_entropy", cross_entropy)]
    for name, of_name in cases:
        for is_ours, arguments, options in of_name:
            with Calls() as calls:
                found = getattr(drop_in, name)(*arguments, **options)
            expected = getattr(F, name)(*arguments, **options)
            assert (found.dtype, calls.number > 0) == (expected.dtype, is_ours), (name, options)
            torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


def test_functional_refuses_what_pytorch_refuses() -> None:
    x, labels = normal(6, 10), torch.arange(6, device="cuda")
    for arguments in ((x, labels, "max"), (x, labels[:2], "mean"), (x, labels.int(), "mean")):
        errors = []
        for module in (F, drop_in):
            with pytest.raises((ValueError, RuntimeError)) as raised:
                module.cross_entropy(*arguments[:2], reduction=arguments[2])
            errors.append((raised.type, str(raised.value)))
        assert errors[0] == errors[1]


def test_the_readmes_example_runs() -> None:
    page = (ROOT / "common/rowwise/README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 1
    exec(blocks[0], {})


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
    found += [(OPS.cross_entropy, (x.requires_grad_(), labels, reduction)) for reduction in ("none", "sum", "mean")]
    return [*found, (OPS.cross_entropy_gradient, (x.detach(), labels)), (OPS.reduce_losses, (normal(3), labels, "mean"))]


def test_opcheck() -> None:
    for operator, arguments in samples():
        torch.library.opcheck(operator.default, arguments)


@pytest.mark.parametrize("dtype, dynamic", [(torch.float32, False), (torch.float32, True), (torch.bfloat16, False)])
def test_compiled_whole(dtype: Any, dynamic: bool) -> None:
    labels = torch.arange(8, device="cuda")

    def loss(x: Any) -> Any:
        return drop_in.cross_entropy(drop_in.log_softmax(rowwise.softmax(x, 0) * 3, 1), labels)

    x = normal(8, 96, dtype=dtype)
    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic)
    for found, expected in zip(with_gradient(compiled, x), with_gradient(loss, x)):
        close(found, expected)


def test_a_training_step_in_a_cuda_graph() -> None:
    x, labels = normal(8, 96).requires_grad_(), torch.arange(8, device="cuda")

    def step(cross_entropy: Callable) -> tuple[Any, Any]:
        loss = cross_entropy(x, labels)
        return loss.detach(), *torch.autograd.grad(loss, x)

    with torch.cuda.stream(torch.cuda.Stream()):
        step(rowwise.cross_entropy)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(rowwise.cross_entropy)
    for scale in (1, -2):
        x.data.copy_(normal(8, 96) * scale)
        graph.replay()
        for one, other in zip(found, step(F.cross_entropy)):
            close(one, other)


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
