"""The peers that work on PyTorch's tensors: PyTorch itself, quack, Liger and FlashInfer.

Each is called beneath its own front, which would allocate the result: with our tensor as the output.
"""

import functools
import importlib
import warnings
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple, Sequence

from measure.results import ELEMENT_BYTES

from . import OPERATIONS, Candidate, Missing, NotApplicable, PeerContender, Problem

# ---- The harness's device memory as PyTorch tensors, and its stream as PyTorch's current one.

# The interface knows no bfloat16: the same two bytes travel as an integer.
_TYPES = {"f32": ("<f4", "float32"), "f16": ("<f2", "float16"), "bf16": ("<i2", "bfloat16")}


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


def on_tensors(problem: Problem, function: Callable[[Any, Any], object]) -> Callable[[int, int, int], None]:
    """A launch that calls function(x, y) with rows x cols tensors over the harness's memory, on its stream."""
    torch = import_torch()

    @functools.cache
    def tensor(pointer: int) -> Any:
        shape, type_ = (problem.rows, problem.cols), _TYPES[problem.dtype][0]
        interface = {"shape": shape, "typestr": type_, "data": (pointer, False), "strides": None, "version": 3}
        wrapped = torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")
        return wrapped.view(dtype_of(problem))

    def launch(x: int, y: int, stream: int) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)), torch.no_grad():
            function(tensor(x), tensor(y))

    return launch


def release() -> None:
    """Gives the memory that PyTorch's allocator keeps back to the device, for the next problem's tensors."""
    import_torch().cuda.empty_cache()


# ---- PyTorch, eager and compiled. torch.compile makes one Triton kernel of the softmax and the copy into our tensor.
# It compiles for each shape by itself (dynamic=False): in the default mode, and where that pays in the mode that tries
# out many configurations (max-autotune), too. CUDA graphs are ours for everybody, so its own are off.

AUTOTUNE = "max-autotune-no-cudagraphs"
# To autotune takes 3 to 8 s a shape, to compile in the default mode 1 to 2 s, and the whole sweep should take
# minutes. On an H200 it made f16 49152 x 8192 faster by a fifth; f32 1024 x 65536 took the same time in
# both modes, and f16 49152 x 1024, 49152 x 64 and f32 1 x 1048576 were slower.
AUTOTUNE_COLS = range(4096, 65536)
AUTOTUNE_FROM_BYTES = 32 << 20


def _eager(problem: Problem) -> list[Candidate]:
    torch = import_torch()
    operator = torch.ops.aten._softmax.out if problem.op == "softmax" else torch.ops.aten._log_softmax.out
    return [Candidate("", on_tensors(problem, lambda x, y: operator(x, -1, False, out=y)))]


def modes(problem: Problem) -> list[str]:
    """The modes of torch.compile that are worth their time at this problem."""
    tensor_bytes = problem.rows * problem.cols * ELEMENT_BYTES[problem.dtype]
    pays = problem.cols in AUTOTUNE_COLS and tensor_bytes > AUTOTUNE_FROM_BYTES
    return ["default", AUTOTUNE] if pays else ["default"]


def _compiled(problem: Problem) -> list[Candidate]:
    torch = import_torch()
    function = torch.softmax if problem.op == "softmax" else torch.log_softmax

    def softmax_into(x, y):
        y.copy_(function(x, -1))

    torch.compiler.reset()  # forgets the last shape: PyTorch gives up on a function that it has compiled too often
    # It warns of its own choices for some shapes, in the middle of the progress bar.
    warnings.filterwarnings("ignore", module=r"torch\._inductor")

    compiled = {mode: torch.compile(softmax_into, fullgraph=True, dynamic=False, mode=mode) for mode in modes(problem)}
    return [Candidate(mode, on_tensors(problem, run)) for mode, run in compiled.items()]


# ---- quack: CuTe DSL.


def _quack(problem: Problem) -> list[Candidate]:
    in_pack = 16 // ELEMENT_BYTES[problem.dtype]
    if problem.cols % in_pack:
        raise NotApplicable(f"rows of whole packs of 16 bytes only: {in_pack} columns")
    module = importlib.import_module("quack.softmax")  # `from quack import softmax` is the function of that name
    return [Candidate("", on_tensors(problem, module._softmax_fwd))]


# ---- Liger: its Triton kernel with its own settings. Rows wider than its largest block go to its second kernel, where
# the installed version has one.

LIGER_LARGEST_BLOCK = 65536


def _liger(problem: Problem) -> list[Candidate]:
    from liger_kernel.ops import softmax
    from liger_kernel.ops.utils import calculate_settings

    kernel = softmax._softmax_single_block_forward_kernel
    if problem.cols > LIGER_LARGEST_BLOCK:
        kernel = softmax._softmax_multi_block_forward_kernel
    block, warps = calculate_settings(min(problem.cols, LIGER_LARGEST_BLOCK))

    def run(x, y):
        kernel[(problem.rows,)](y, y.stride(0), x, x.stride(0), problem.cols, BLOCK_SIZE=block, num_warps=warps)

    return [Candidate(f"{warps} warps", on_tensors(problem, run))]


# ---- FlashInfer: made for the few rows of decoding. Up to 128 rows of 24576 columns and more it splits over the GPU,
# with two kernels and a workspace between them.

FLASHINFER_WORKSPACE_BYTES = 1 << 20  # what flashinfer.sampling.softmax takes; more changes nothing


@functools.cache
def _flashinfer_kernels() -> Any:
    """Compiles them with nvcc the first time, which takes minutes."""
    from flashinfer.jit.sampling import gen_sampling_module

    return gen_sampling_module().build_and_load()


def _flashinfer(problem: Problem) -> list[Candidate]:
    if problem.dtype != "f32":
        raise NotApplicable("its result is f32, whatever its input")
    torch, kernels = import_torch(), _flashinfer_kernels()
    workspace = torch.empty(FLASHINFER_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def run(dependent_launch, x, y):
        kernels.softmax(workspace, x, y, None, 1.0, dependent_launch)  # no temperatures by row; one for all

    ways = {"dependent launch": True, "plain launch": False}  # enable_pdl
    return [Candidate(name, on_tensors(problem, functools.partial(run, way))) for name, way in ways.items()]


# ---- All of them.


class Library(NamedTuple):
    peer: str
    package: str  # pip's name of it
    prepare: dict[str, Callable[[Problem], list[Candidate]]]  # by variant
    operations: Sequence[str] = ("softmax",)
    load: Callable[[], object] = lambda: None  # what takes long, or may fail, once

    def version(self) -> str:
        torch = import_torch()
        try:
            return str(torch.__version__) if self.peer == "pytorch" else metadata.version(self.package)
        except metadata.PackageNotFoundError as error:
            raise Missing(f"{self.package} is not installed for this python3") from error

    def contenders(self) -> list[PeerContender]:
        self.load()
        return [PeerContender(self.peer, name, do, release, self.operations) for name, do in self.prepare.items()]


LIBRARIES = {
    library.peer: library
    for library in (
        Library("pytorch", "torch", {"eager": _eager, "compiled": _compiled}, OPERATIONS),
        Library("quack", "quack-kernels", {"softmax": _quack}),
        Library("liger", "liger_kernel", {"softmax": _liger}),
        Library("flashinfer", "flashinfer-python", {"softmax": _flashinfer}, load=_flashinfer_kernels),
    )
}
