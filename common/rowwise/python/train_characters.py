#!/usr/bin/env python3
"""Trains a small transformer to continue the lessons of this repository, character by character: twice, with PyTorch's softmax and
cross-entropy and with those of the package rowwise. Same weights, same batches: the same curve, except for rounding.

    pip install --no-build-isolation ./common/rowwise && python3 common/rowwise/python/train_characters.py

It needs PyTorch and a GPU; takes a minute; prints the loss now and then, and draws training.svg next to this file.

Exit codes: 0 the losses agree at the end; 1 they differ by more than 1 %; 3 no GPU, or no PyTorch.
"""

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

try:
    import torch
except ImportError:
    print("train_characters.py: PyTorch is not installed for this python3", file=sys.stderr)
    raise SystemExit(3) from None
import rowwise.functional
from torch import Tensor, nn
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[3]
CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 256, 32, 256, 8, 4
MODES = ("eager", "compiled", "graph")  # with torch.compile; the whole step in a CUDA graph
WARM_UP_STEPS = 20  # which take longer, and are not timed


class Operators(NamedTuple):
    name: str
    softmax: Callable[[Tensor, int], Tensor]
    cross_entropy: Callable[[Tensor, Tensor], Tensor]


PYTORCH = Operators("PyTorch", functional.softmax, functional.cross_entropy)
OURS = Operators("rowwise", rowwise.functional.softmax, rowwise.functional.cross_entropy)


class Block(nn.Module):
    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.softmax = operators.softmax
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_heads, self.from_heads = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        heads = self.to_heads(self.before(x)).view(*x.shape[:2], 3 * HEADS, -1).transpose(1, 2)
        query, key, value = heads.chunk(3, dim=1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        attended = self.softmax(scores.masked_fill(mask, -math.inf), -1) @ value
        x = x + self.from_heads(attended.transpose(1, 2).reshape(x.shape))
        return x + self.think(self.between(x))


class Transformer(nn.Module):
    def __init__(self, characters: int, operators: Operators) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(operators) for _ in range(LAYERS))
        self.last, self.to_characters = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1))

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.places.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.to_characters(self.last(x))


class Run(NamedTuple):
    losses: list[float]
    milliseconds: float  # a step, the median


def in_a_graph(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Returns a function that repeats the step's launches. The step runs a few times before it is recorded."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Tensor:
        graph.replay()
        return loss

    return replay


def train(operators: Operators, text: Tensor, characters: int, steps: int, mode: str) -> Run:
    torch.manual_seed(1)
    model = Transformer(characters, operators).cuda()

    def loss_of(batch: Tensor) -> Tensor:
        return operators.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    loss_of = torch.compile(loss_of, fullgraph=True) if mode == "compiled" else loss_of
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=mode == "graph")
    batches = torch.Generator().manual_seed(2)

    def next_batch() -> Tensor:
        begins = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=batches).tolist()
        return torch.stack([text[begin : begin + CONTEXT + 1] for begin in begins])

    batch = next_batch()

    def do_step() -> Tensor:
        loss = loss_of(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    take_step = in_a_graph(do_step) if mode == "graph" else do_step
    losses, times = [], []
    for step in range(steps):
        batch.copy_(next_batch())
        torch.cuda.synchronize()
        start = time.perf_counter()
        losses.append(take_step().item())  # waits for the GPU
        times.append(1e3 * (time.perf_counter() - start))
        if step % 50 == 0 or step == steps - 1:
            print(f"{operators.name:8} step {step:4}  loss {losses[-1]:.4f}", flush=True)
    return Run(losses, statistics.median(times[WARM_UP_STEPS:] or times))


# ---- The picture.

STYLE = """<style>
text { font-family: sans-serif; font-size: 18px; fill: #1f2328; } .axis { stroke: #59636e; fill: none; }
.first { stroke: #59636e; stroke-width: 6; fill: none; } .second { stroke: #0969da; stroke-width: 2; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .axis, .first { stroke: #9198a1; } .second { stroke: #4493f8; }
}
</style>"""


def drawn(runs: dict[str, Run]) -> str:
    """Both curves, one on the other: the first is thick."""
    left, top, width, height = 50, 20, 560, 260
    steps = max(len(run.losses) for run in runs.values())
    most = max(max(run.losses) for run in runs.values())

    def place(step: int, loss: float) -> tuple[float, float]:
        return left + width * step / max(steps - 1, 1), top + height * (1 - loss / most)

    parts = [f'<path class="axis" d="M{left},{top} V{top + height} H{left + width}"/>']
    for loss in range(math.floor(most) + 1):
        parts.append(f'<text x="{left - 10}" y="{place(0, loss)[1] + 5:.0f}" text-anchor="end">{loss}</text>')
    for step in range(0, steps, 100):
        parts.append(f'<text x="{place(step, 0)[0]:.0f}" y="{top + height + 20}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{left + width}" y="{top + height + 20}" text-anchor="end">step</text>')
    parts.append(f'<text x="{left + 10}" y="{top + 5}">loss</text>')
    for number, (kind, (name, run)) in enumerate(zip(("first", "second"), runs.items())):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*one) for one in enumerate(run.losses)))
        y = top + 30 + 26 * number
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
        parts.append(f'<path class="{kind}" d="M{left + 230},{y} h40"/>')
        parts.append(f'<text x="{left + 280}" y="{y + 5}">{name}: {run.milliseconds:.2f} ms per step</text>')
    title = "Loss of a small transformer, with PyTorch's softmax and cross-entropy and with those of rowwise"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 320" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", STYLE, *parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="(default: 400)")
    parser.add_argument("--mode", choices=MODES, default="eager", help="how both take a step (default: eager)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("training.svg"), help="the picture")
    parser.add_argument("--json", type=Path, help="a file for losses and times")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(3, "train_characters.py: PyTorch finds no GPU\n")
    lessons = "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("[0-9][0-9]_*/README.md")))
    known = {character: number for number, character in enumerate(sorted(set(lessons)))}
    text = torch.tensor([known[character] for character in lessons], device="cuda")
    runs = {of.name: train(of, text, len(known), arguments.steps, arguments.mode) for of in (PYTORCH, OURS)}
    theirs, ours = (statistics.mean(run.losses[-20:]) for run in runs.values())
    print(f"loss at the end, the mean of 20 steps: {theirs:.4f} and {ours:.4f}; {torch.cuda.get_device_name()}")
    for name, run in runs.items():
        print(f"{name:8} {arguments.mode:8} {run.milliseconds:7.2f} ms per step")
    arguments.out.write_text(drawn(runs), encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps({name: run._asdict() for name, run in runs.items()}), encoding="utf-8")
    if not abs(ours / theirs - 1) <= 0.01:  # NaN, too
        parser.exit(1, "train_characters.py: the losses differ by more than 1 %\n")


if __name__ == "__main__":
    main()
