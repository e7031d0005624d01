"""A sweep's results file with numbers from a formula: plausible, the same every time, and never measured."""

from typing import Any

from measure.results import NUMBERS, parse_shape

TABLES = [
    ("fastertransformer", "FasterTransformer's table", [f"f32:{2048 * s}x{s}" for s in (16, 32, 64, 128, 512)]),
    ("oneflow", "OneFlow's table", [f"f16:49152x{2**p}" for p in range(5, 16)]),
    ("triton_article", "The Triton article's table", [f"f32:1024x{2**p}" for p in range(8, 18)]),
    ("awkward", "Awkward shapes", ["bf16:4096x50257", "f32:4096x50257", "f16:49152x1025", "bf16:8x262144"]),
]
# (kind, stage, variant, share of the copy's bandwidth, widest row, passes)
CONTENDERS = [
    ("stage", "01_naive", "block_per_row", 0.24, 1 << 30, 8),
    ("stage", "02_fused_block", "cub_block_reduce", 0.48, 1 << 30, 4),
    ("stage", "03_warp_reduce", "packs", 0.99, 1024, 2),
    ("stage", "03_warp_reduce", "scalar_loads", 0.78, 1024, 2),
    ("stage", "04_smem_bank_conflict", "vector_layout", 0.94, 1 << 15, 2),
    ("stage", "05_uncached", "large_block", 0.90, 1 << 30, 4),
    ("stage", "06_online", "online", 0.93, 1 << 30, 3),
    ("stage", "14_dispatch", "dispatch", 0.985, 1 << 14, 2),
    ("peer", "cudnn", "accurate", 0.45, 1 << 30, None),
    ("peer", "pytorch", "eager", 0.55, 1 << 30, None),
    ("peer", "pytorch", "compiled", 0.70, 1 << 30, None),
    ("peer", "triton", "fused", 0.88, 1 << 14, None),
    ("peer", "triton", "online", 0.65, 1 << 30, None),
    ("peer", "quack", "softmax", 0.91, 1 << 30, None),
    ("peer", "liger", "softmax", 0.6, 1 << 30, None),
    ("peer", "flashinfer", "softmax", 0.4, 1 << 30, None),
    ("copy", "", "copy", 1.0, 1 << 30, 2),
]


def measured(contender: tuple, text: str) -> dict[str, Any]:
    kind, stage, variant, share, widest, passes = contender
    shape = parse_shape(text)
    result = dict(contender=f"{stage} {variant}".strip(), kind=kind, stage=stage, variant=variant)
    result.update(shape._asdict(), op="softmax", input="normal", status="verified", reason="")
    result.update(dict.fromkeys((*NUMBERS, "round_difference_percent")), noisy=False)
    if shape.cols > widest:
        return {**result, "status": "not applicable", "reason": f"at most {widest} columns"}
    copy = 2 + 2 * shape.tensor_bytes / 4.3e6
    wave = 1 - 0.12 * abs((shape.cols * 7919 % 97) / 97 - 0.5) * (len(stage) % 3 if stage else 0)
    time = copy / (share * wave)
    noisy = (stage, shape.cols) == ("06_online", 4096)
    result.update(
        time_us=round(time, 3),
        spread_percent=0.4,
        copy_us=round(copy, 3),
        percent_of_copy=round(100 * copy / time, 2),
        bandwidth_gb_s=round(2 * shape.tensor_bytes / time / 1000, 1),
        passes=passes,
        max_error=0.05 if stage else None,
        round_difference_percent=4.2 if noisy else 0.5,
        noisy=noisy,
    )
    return result


def sweep() -> dict[str, Any]:
    shapes = list(dict.fromkeys(shape for _, _, some in TABLES for shape in some))
    results = [measured(contender, shape) for shape in shapes for contender in CONTENDERS]
    liger = next(r for r in results if r["stage"] == "liger" and r["cols"] == 262144)
    liger.update(dict.fromkeys(("time_us", "copy_us", "percent_of_copy", "bandwidth_gb_s", "spread_percent")))
    liger.update(status="failed", reason="<RuntimeError> & no more")
    recorded = dict(date_utc="2030-01-02T03:04:05Z", commit="0123456789abcdef0123456789abcdef01234567", dirty=False)
    machine = dict(gpu="NVIDIA Fake 1", compute_capability="9.0", multiprocessors=100, max_sm_clock_mhz=1500)
    machine.update(l2_bytes=50 << 20, memory_bytes=80 << 30, cuda_driver="13.0", cuda_runtime="13.0")
    machine.update(driver_version="580.1", nvcc="13.0.88", python="3.12.3", torch="2.9", triton="3.5", cudnn="9.1")
    return {
        "recorded": {**recorded, "command": "./run sweep"},
        "machine": {**machine, "quack": "0.2", "liger": None, "flashinfer": "0.7"},
        "settings": {"l2": "cold", "repeats": 25, "seed": 1, "offset": 0, "rounds": 2, "peer_tolerance": 4.0},
        "tables": [{"name": n, "title": t, "source": "made up", "shapes": list(s)} for n, t, s in TABLES],
        "results": results,
    }
