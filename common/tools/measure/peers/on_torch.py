"""The peers that work on PyTorch's tensors: PyTorch itself, quack, Liger and FlashInfer.

Each is called beneath its own front, which would allocate the result: with our tensor as the output.
"""

import functools
import importlib
import math
import warnings
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple, Sequence

from measure.results import ELEMENT_BYTES

from . import CROSS_ENTROPY, GRADIENTS, OPERATIONS, Candidate, Missing, NotApplicable, PeerContender, Problem

# ---- The harness's device memory as PyTorch tensors, and its stream as PyTorch's current one.

# The interface knows no bfloat16: the same two bytes travel as an integer.
_TYPES = {"f32": ("<f4", "float32"), "f16": ("<f2", "float16"), "bf16": ("<i2", "bfloat16"), "i64": ("<i8", "int64")}
IGNORED = -100  # the label of a row that has no loss


@functools.cache
def import_torch() -> Any:
    """PyTorch with a GPU. Raises Missing."""
    try:
        import torch
    except ImportError as error:
        raise Missing("PyTorch is not installed for this python3") from error
    if not torch.cuda.is_available():
        raise Missing(f"PyTorch {torch.__version__} sees no GPU (built without CUDA, or for a newer driver)")
    return torch


def dtype_of(problem: Problem) -> Any:
    return getattr(import_torch(), _TYPES[problem.dtype][1])


def on_tensors(problem: Problem, function: Callable[..., object]) -> Callable[..., None]:
    """A launch that calls `function` with tensors over the harness's memory, on its stream: each input, then each output
    of the operation. They are rows x cols, except for labels and losses: one per row."""
    torch = import_torch()
    matrix = problem.dtype, (problem.rows, problem.cols)
    label, loss = ("i64", (problem.rows,)), ("f32", (problem.rows,))
    kinds = (matrix, label, loss, matrix) if problem.op in CROSS_ENTROPY else (matrix,) * 3

    @functools.cache
    def tensor(pointer: int, dtype: str, shape: tuple[int, ...]) -> Any:
        typestr, name = _TYPES[dtype]
        # From the aligned address on, for torch.compile knows a tensor's alignment by its offset in the storage alone.
        data = (pointer - problem.offset * int(typestr[2:]), False)
        interface = {"shape": (problem.offset + math.prod(shape),), "typestr": typestr, "data": data, "strides": None, "version": 3}
        wrapped = torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")
        return wrapped.view(getattr(torch, name))[problem.offset :].view(*shape)

    def launch(*memory: int) -> None:
        *pointers, stream = memory
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)), torch.no_grad():
            function(*(tensor(pointer, *kind) for pointer, kind in zip(pointers, kinds)))

    return launch


def release() -> None:
    """Gives the memory that PyTorch's allocator keeps back to the device, for the next problem's tensors."""
    import_torch().cuda.empty_cache()


# ---- PyTorch, eager and compiled. torch.compile makes one Triton kernel of the softmax and the copy into our tensor.
# It compiles for each shape by itself (dynamic=False): in the default mode, and where that pays in the mode that tries
# out many configurations (max-autotune), too. Every contender runs in our CUDA graphs, so its own are off.

AUTOTUNE = "max-autotune-no-cudagraphs"
# To autotune takes 3 to 8 s a shape, to compile in the default mode 1 to 2 s, and the whole sweep should take
# minutes. On an H200 it made f16 49152 x 8192 faster by a fifth; f32 1024 x 65536 took the same time in
# both modes, and f16 49152 x 1024, 49152 x 64 and f32 1 x 1048576 were slower.
AUTOTUNE_COLS = range(4096, 65536)
AUTOTUNE_FROM_BYTES = 32 << 20


def _eager_loss(problem: Problem) -> Callable[..., None]:
    """The kernels of F.cross_entropy and of its gradient as under torch.autocast, which has them in f32.

    Without it bf16 logits have bf16 losses: rounded by up to a hundred times the allowed error of a loss.
    """
    torch = import_torch()
    aten = torch.ops.aten
    shape, in_f32 = (problem.rows, problem.cols), problem.dtype == "f32"
    make = functools.partial(torch.empty, dtype=torch.float32, device="cuda")
    log_y, total_weight = make(shape), make(())  # the latter is for means
    converted = None if in_f32 else make(shape)  # first x, then dx
    d_log_y = make(shape) if problem.op == "cross_entropy_gradient" else None
    d_loss = torch.ones(problem.rows, device="cuda")

    def run(x, label, loss, dx=None):
        aten._log_softmax.out(x if in_f32 else converted.copy_(x), -1, False, out=log_y)
        aten.nll_loss_forward.output(log_y, label, None, 0, IGNORED, output=loss, total_weight=total_weight)
        if dx is None:
            return
        aten.nll_loss_backward.grad_input(d_loss, log_y, label, None, 0, IGNORED, total_weight, grad_input=d_log_y)
        aten._log_softmax_backward_data.out(d_log_y, log_y, -1, torch.float32, out=dx if in_f32 else converted)
        if not in_f32:
            dx.copy_(converted)

    return run


def _eager(problem: Problem) -> list[Candidate]:
    if problem.op in CROSS_ENTROPY:
        return [Candidate("", on_tensors(problem, _eager_loss(problem)))]
    aten = import_torch().ops.aten
    calls: dict[str, Callable[..., object]] = {
        "softmax": lambda x, y: aten._softmax.out(x, -1, False, out=y),
        "log_softmax": lambda x, y: aten._log_softmax.out(x, -1, False, out=y),
        # The first allocates y * dy for itself, in memory that PyTorch keeps after the first call.
        "softmax_backward": lambda y, dy, dx: aten._softmax_backward_data.out(dy, y, -1, y.dtype, grad_input=dx),
        "log_softmax_backward": lambda y, dy, dx: aten._log_softmax_backward_data.out(dy, y, -1, y.dtype, out=dx),
    }
    return [Candidate("", on_tensors(problem, calls[problem.op]))]


def _autotune_in_graphs() -> None:
    """Has Inductor time its configurations in CUDA graphs, in which every contender is timed here.

    It times launches from Python: of the three that it has for the losses of bf16 262144 x 100 it measured 0.22, 0.23
    and 0.19 ms on an H200, and took the last. In a graph they take 49, 50 and 160 us.
    """
    names = ("torch._inductor.runtime.triton_heuristics", "triton.testing")
    heuristics, testing = map(importlib.import_module, names)
    cuda = import_torch().cuda

    def bench(_self: Any, launcher: Any, *args: Any, with_profiler: bool = False, **kwargs: Any) -> float:
        def launch() -> None:
            launcher(*args, **kwargs, stream=cuda.current_stream().cuda_stream)

        milliseconds: float = testing.do_bench_cudagraph(launch, rep=1, return_mode="median")
        return milliseconds

    heuristics.CachingAutotuner.bench = bench


def modes(problem: Problem) -> list[str]:
    """The modes of torch.compile that are worth their time at this problem."""
    pays = problem.cols in AUTOTUNE_COLS and problem.shape.tensor_bytes > AUTOTUNE_FROM_BYTES
    return ["default", AUTOTUNE] if pays else ["default"]


def _compiled(problem: Problem) -> list[Candidate]:
    torch = import_torch()
    aten = torch.ops.aten

    def loss(x, label):
        return torch.nn.functional.cross_entropy(x.float(), label, reduction="none")

    def loss_and_gradient(x, label):
        y, wanted = torch.softmax(x.float(), -1), label[:, None]
        at_label = wanted == torch.arange(x.shape[1], device=x.device)
        return loss(x, label), torch.where(wanted == IGNORED, 0.0, torch.where(at_label, y - 1, y))

    functions: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        # The function that autograd calls; it is compiled as y * dy - y * (y * dy).sum(-1), in float.
        "softmax_backward": lambda y, dy: aten._softmax_backward_data(dy, y, -1, y.dtype),
        "log_softmax_backward": lambda y, dy: aten._log_softmax_backward_data(dy, y, -1, y.dtype),
        # In f32, for loads convert at no cost. The gradient is written out: autograd would make a matrix of zeros first.
        "cross_entropy": loss,
        "cross_entropy_gradient": loss_and_gradient,
    }
    function = functions[problem.op]
    outputs = 2 if problem.op == "cross_entropy_gradient" else 1

    def into(*tensors):
        results = function(*tensors[:-outputs])
        for tensor, result in zip(tensors[-outputs:], results if outputs > 1 else (results,)):
            tensor.copy_(result)

    _autotune_in_graphs()
    torch.compiler.reset()  # forgets the last shape: PyTorch gives up on a function that it has compiled too often
    # One of its caches on disk knows no offsets: it would hand out code that was compiled for aligned tensors.
    settings: Any = importlib.import_module("torch._functorch.config")
    settings.enable_autograd_cache = problem.offset == 0
    # It warns of its own choices for some shapes, in the middle of the progress bar.
    warnings.filterwarnings("ignore", module=r"torch\._inductor")

    compiled = {mode: torch.compile(into, fullgraph=True, dynamic=False, mode=mode) for mode in modes(problem)}
    return [Candidate(mode, on_tensors(problem, run)) for mode, run in compiled.items()]


# ---- quack: CuTe DSL.


def _quack(problem: Problem) -> list[Candidate]:
    in_pack = problem.elements_in_pack
    if problem.cols % in_pack:
        raise NotApplicable(f"rows of whole packs of 16 bytes only: {in_pack} columns")
    if problem.offset % in_pack:
        raise NotApplicable("tensors aligned to 16 bytes only")
    module = importlib.import_module("quack.softmax")  # `from quack import softmax` is the function of that name

    def gradient(y, dy, dx):
        module._softmax_backward(dy, y, dx)

    return [Candidate("", on_tensors(problem, gradient if problem.op in GRADIENTS else module._softmax_fwd))]


def _quack_loss(problem: Problem) -> list[Candidate]:
    pack = math.gcd(problem.elements_in_pack, problem.cols)  # that it loads at once
    if pack * ELEMENT_BYTES[problem.dtype] < 4:
        raise NotApplicable("it loads at least 4 bytes at once: an even number of columns")
    if problem.offset % pack:
        raise NotApplicable(f"tensors aligned to its packs of {pack} elements only")
    module, torch = importlib.import_module("quack.cross_entropy"), import_torch()
    log_sum = torch.empty(problem.rows, dtype=torch.float32, device="cuda")
    d_loss = torch.ones(problem.rows, device="cuda")

    def one_kernel(x, label, loss, dx=None):
        module.cross_entropy_fwd_out(x, label, None, loss, None, dx, None, IGNORED)

    def two_kernels(x, label, loss, dx):
        module.cross_entropy_fwd_out(x, label, None, loss, log_sum, None, None, IGNORED)
        module.cross_entropy_bwd_out(x, label, d_loss, log_sum, dx, None, IGNORED)

    ways: dict[str, Callable[..., None]] = {"one kernel": one_kernel}
    if problem.op == "cross_entropy_gradient":
        ways["forward and backward"] = two_kernels
    return [Candidate(name, on_tensors(problem, way)) for name, way in ways.items()]


# ---- Liger: its Triton kernel with its own settings. Rows wider than its largest block go to its second kernel, if
# the installed version has one.

LIGER_LARGEST_BLOCK = 65536


def _liger(problem: Problem) -> list[Candidate]:
    from liger_kernel.ops import softmax
    from liger_kernel.ops.utils import calculate_settings

    size = "multi" if problem.cols > LIGER_LARGEST_BLOCK else "single"
    direction = "backward" if problem.op in GRADIENTS else "forward"
    kernel = getattr(softmax, f"_softmax_{size}_block_{direction}_kernel")
    block, warps = calculate_settings(min(problem.cols, LIGER_LARGEST_BLOCK))

    def launch(*tensors):
        with_strides = [argument for tensor in tensors for argument in (tensor, tensor.stride(0))]
        kernel[(problem.rows,)](*with_strides, problem.cols, BLOCK_SIZE=block, num_warps=warps)

    def result(x, y):
        launch(y, x)

    def gradient(y, dy, dx):
        launch(dy, y, dx)

    run = gradient if problem.op in GRADIENTS else result
    return [Candidate(f"{warps} warps", on_tensors(problem, run))]


def _liger_loss(problem: Problem) -> list[Candidate]:
    """Its kernel makes the gradient where the logits are. Here they must last: it works on a copy, which is timed, too."""
    if problem.op == "cross_entropy":
        raise NotApplicable("it overwrites the logits of ignored rows, even for the loss alone")
    module = importlib.import_module("liger_kernel.ops.cross_entropy")
    block = min(module.MAX_FUSED_SIZE, 1 << (problem.cols - 1).bit_length())
    warps = 8 if problem.dtype != "f32" and module.infer_device_arch().startswith("blackwell") else 32
    without = ("weight_ptr", "z_loss_ptr", "token_accuracy_ptr", "predicted_tokens_ptr", "softcap")
    zeros = ("weight_sum", "lse_square_scale", "label_smoothing")
    false = ("RETURN_Z_LOSS", "RETURN_TOKEN_ACCURACY", "RETURN_PREDICTED_TOKENS", "HAS_WEIGHT", "HAS_SOFTCAPPING")
    settings = {
        **dict.fromkeys(without),
        **dict.fromkeys(zeros, 0.0),
        **dict.fromkeys(("token_accuracy_stride", "predicted_tokens_stride"), 0),
        **dict.fromkeys(false, False),
        **dict.fromkeys(("n_non_ignore", "sum_non_ignore_weight"), 1),  # for means
        **{"ignore_index": IGNORED, "reduction": "none", "HAS_GRADIENTS": True, "BLOCK_SIZE": block, "num_warps": warps},
    }

    def run(x, label, loss, dx):
        dx.copy_(x)
        loss.zero_()  # as before its own launch: it leaves those of ignored rows as they are
        tensors = {"X_ptr": dx, "Y_ptr": label, "loss_ptr": loss}
        strides = {"X_stride": dx.stride(0), "Y_stride": 1, "loss_stride": 1}
        module.liger_cross_entropy_kernel[(problem.rows,)](**tensors, **strides, n_cols=problem.cols, **settings)

    return [Candidate(f"{warps} warps", on_tensors(problem, run))]


# ---- FlashInfer: made for the few rows of decoding. Up to 128 rows of 24576 columns and more it splits over the GPU,
# with two kernels and a workspace between them.

FLASHINFER_WORKSPACE_BYTES = 1 << 20  # the size that flashinfer.sampling.softmax takes; more changes nothing


@functools.cache
def _flashinfer_kernels() -> Any:
    """Compiles them with nvcc the first time, which takes minutes."""
    from flashinfer.jit.sampling import gen_sampling_module

    return gen_sampling_module().build_and_load()


def _flashinfer(problem: Problem) -> list[Candidate]:
    if problem.dtype != "f32":
        raise NotApplicable("its result is f32, whatever its input")
    in_pack = math.gcd(problem.elements_in_pack, problem.cols)  # that it loads at once
    if problem.offset % in_pack:
        raise NotApplicable(f"tensors aligned to its packs of {in_pack} elements only")
    torch, kernels = import_torch(), _flashinfer_kernels()
    workspace = torch.empty(FLASHINFER_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def run(dependent_launch, x, y):
        kernels.softmax(workspace, x, y, None, 1.0, dependent_launch)  # no temperatures by row; one for all

    ways = {"dependent launch": True, "plain launch": False}  # enable_pdl
    return [Candidate(name, on_tensors(problem, functools.partial(run, way))) for name, way in ways.items()]


# ---- All of them.

WITHOUT_LOG = ("softmax", "softmax_backward")


class Library(NamedTuple):
    peer: str
    package: str  # pip's name of it
    prepare: dict[str, Callable[[Problem], list[Candidate]]]  # by variant
    operations: Sequence[str] = ("softmax",)
    losses: dict[str, Callable[[Problem], list[Candidate]]] = {}  # by variant, of cross-entropy
    load: Callable[[], object] = lambda: None  # steps that take long, or may fail, once

    def version(self) -> str:
        torch = import_torch()
        try:
            return str(torch.__version__) if self.peer == "pytorch" else metadata.version(self.package)
        except metadata.PackageNotFoundError as error:
            raise Missing(f"{self.package} is not installed for this python3") from error

    def contenders(self) -> list[PeerContender]:
        self.load()
        variants = ((self.prepare, self.operations), (self.losses, CROSS_ENTROPY))
        return [PeerContender(self.peer, name, do, release, ops) for some, ops in variants for name, do in some.items()]


LIBRARIES = {
    library.peer: library
    for library in (
        Library("pytorch", "torch", {"eager": _eager, "compiled": _compiled}, (*OPERATIONS, *CROSS_ENTROPY)),
        Library("quack", "quack-kernels", {"softmax": _quack}, WITHOUT_LOG, {"cross_entropy": _quack_loss}),
        Library("liger", "liger_kernel", {"softmax": _liger}, WITHOUT_LOG, {"cross_entropy_of_copy": _liger_loss}),
        Library("flashinfer", "flashinfer-python", {"softmax": _flashinfer}, load=_flashinfer_kernels),
    )
}
