"""The other implementations that `./run sweep` measures in addition to the stages.

A peer is a file, or one of the LIBRARIES of on_torch.py, that offers

    version() -> str                    raises Missing if the peer is not installed
    contenders() -> list[PeerContender]

A contender prepares itself for one problem and returns its candidates: the configurations that are worth trying.
The sweep verifies and times each of them briefly and goes on with the fastest, so that every peer is
measured at its best. A candidate's launch writes straight into the harness's output, on the harness's
stream, and may neither allocate nor wait: it is called while the stream is captured into a CUDA graph. It has
been called once outside of a capture before, which is when compilers compile.

JAX is not a peer: code of jax.jit runs on a stream of JAX's own and allocates its result, so that it can neither be
captured nor write into the harness's output.
"""

import importlib
import re
from typing import Any, Callable, NamedTuple, Sequence

from command import ToolError
from measure.results import COLOUR, ELEMENT_BYTES, Shape

PEERS = ("cudnn", "pytorch", "triton", "quack", "liger", "flashinfer")  # in the order in which they are shown
SOFTMAX = ("softmax", "log_softmax")  # x -> y
GRADIENTS = ("softmax_backward", "log_softmax_backward")  # y, dy -> dx
OPERATIONS = (*SOFTMAX, *GRADIENTS)  # on matrices alone
CROSS_ENTROPY = ("cross_entropy", "cross_entropy_gradient")  # x, label -> loss; x, label -> loss, dx
FAMILIES = (SOFTMAX, GRADIENTS, CROSS_ENTROPY)
_FILES = {"cudnn": "cudnn", "triton": "triton_kernels"}


class Missing(Exception):
    """The peer is not here; the text says what is missing."""


class NotApplicable(Exception):
    """The peer cannot do a problem; the text says why."""


class Problem(NamedTuple):
    """rows x cols elements of `dtype` ("f32", "f16", "bf16"), row-major; op is one of the contender's operations.

    Each tensor begins `offset` elements past an address that is aligned to 256 bytes.
    """

    dtype: str
    rows: int
    cols: int
    op: str
    offset: int = 0

    @property
    def shape(self) -> Shape:
        return Shape(self.dtype, self.rows, self.cols)

    @property
    def elements_in_pack(self) -> int:
        """A pack has 16 bytes."""
        return 16 // ELEMENT_BYTES[self.dtype]

    def __str__(self) -> str:
        """The shape, and every setting that is not the usual one."""
        op = "" if self.op == "softmax" else f" {self.op}"
        return f"{self.shape}{op}" + (f" offset {self.offset}" if self.offset else "")


class Candidate(NamedTuple):
    configuration: str  # "8 warps"; empty where there is nothing to choose
    # Takes a device pointer for each input and each output of the operation, then the stream's handle: (x, y, stream)
    # for softmax, (y, dy, dx, stream) for its gradient, (x, label, loss, dx, stream) for the loss with its gradient.
    launch: Callable[..., None]


class PeerContender(NamedTuple):
    peer: str  # "cudnn"
    variant: str  # "accurate"
    prepare: Callable[[Problem], list[Candidate]]  # raises NotApplicable
    release: Callable[[], None] = lambda: None  # called when the problem is done
    operations: Sequence[str] = SOFTMAX
    compile_ahead: Callable[[list[Problem]], None] | None = None  # called once with all the problems, first of all


def load(peer: str) -> Any:
    """A module that offers version() and contenders(). Raises Missing."""
    module = importlib.import_module(f"measure.peers.{_FILES.get(peer, 'on_torch')}")
    return module if peer in _FILES else module.LIBRARIES[peer]


def of_operations(contenders: list[PeerContender], ops: set[str]) -> list[PeerContender]:
    """Those that do one of the operations. If a peer does none of them, its first is included: its rows say so."""
    found: dict[str, list[PeerContender]] = {contender.peer: [] for contender in contenders}
    for contender in contenders:
        if ops & set(contender.operations):
            found[contender.peer].append(contender)
    first = {contender.peer: contender for contender in reversed(contenders)}
    return [contender for peer, some in found.items() for contender in some or [first[peer]]]


def one_line(error: BaseException) -> str:
    """The error's message, without the colours that some libraries give to theirs."""
    text = " ".join(re.sub(COLOUR, "", str(error)).split())
    text = text if isinstance(error, ToolError) else f"{type(error).__name__}: {text}"
    return text[:300]


def find(wanted: list[str]) -> tuple[list[PeerContender], dict[str, str], dict[str, str]]:
    """The contenders of the wanted peers; the versions of those that are here; why the others are not.

    To be called before the harness's library is loaded: with it in the process `import torch` ends in a segmentation
    fault (PyTorch 2.11 for CUDA 13.0), the other way round all is well. CUDA's own libraries and cuDNN may
    come before or after.
    """
    contenders: list[PeerContender] = []
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    for peer in wanted:
        try:
            loaded = load(peer)
            versions[peer] = loaded.version()
            contenders += loaded.contenders()
        except Missing as error:
            missing[peer] = str(error)
        except Exception as error:  # noqa: BLE001  a broken installation must not end the sweep
            versions.pop(peer, None)
            missing[peer] = f"{type(error).__name__}: {error}".splitlines()[0]
    return contenders, versions, missing
