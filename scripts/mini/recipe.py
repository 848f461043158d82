"""Every number of the pair `mini`: shapes, schedule, mixture. Frozen, so a run is its recipe."""

from dataclasses import dataclass

EOS = "<|endoftext|>"
VOCAB = 4096
CONTEXT = 1024
SEED = 20240


@dataclass(frozen=True)
class Shape:
    """The widths of one llama."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    mlp: int
    head_dim: int = 64
    rope_theta: float = 10000.0


@dataclass(frozen=True)
class Schedule:
    """One training run. Each step sees `step_tokens` tokens, cut in rows of `row_tokens`.

    The last `long_share` of the steps use rows of the whole context, so that every position the
    model admits has been trained, at a price only paid at the end. The rate follows a cosine of
    length `horizon`, cut short by a linear `cooldown`: a run may end anywhere and still settle.
    """

    steps: int
    horizon: int
    cooldown: int
    step_tokens: int
    row_tokens: int
    long_share: float
    inner_lr: float
    outer_lr: float
    warmup: int = 40
    final_lr_share: float = 0.03
    weight_decay: float = 0.1
    distil: float = 0.0

    def row_length(self, step: int) -> int:
        """Tokens per row at this step."""
        return CONTEXT if step >= self.steps * (1 - self.long_share) else self.row_tokens


TARGET_SHAPE = Shape(hidden=256, layers=6, heads=4, kv_heads=2, mlp=640)
DRAFT_SHAPE = Shape(hidden=128, layers=2, heads=2, kv_heads=1, mlp=256)

TARGET_SCHEDULE = Schedule(
    steps=290,
    horizon=480,
    cooldown=80,
    step_tokens=3072,
    row_tokens=256,
    long_share=0.1,
    inner_lr=0.02,
    outer_lr=4e-3,
)
DRAFT_SCHEDULE = Schedule(
    steps=180,
    horizon=360,
    cooldown=60,
    step_tokens=3072,
    row_tokens=256,
    long_share=0.1,
    inner_lr=0.02,
    outer_lr=4e-3,
    distil=0.8,
)
