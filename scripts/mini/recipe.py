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
class Cycle:
    """Part of a run, up to step `end`: a cosine of length `horizon`, cut by a linear cooldown.

    `split_breaks` is the share of line breaks whose indentation is cut off as a token of its own.
    A prompt that ends with a line break looks like that, and no encoded file does.
    """

    end: int
    horizon: int
    cooldown: int
    split_breaks: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """One training run. Each step sees `step_tokens` tokens, cut in rows of `row_tokens`.

    Every cycle settles, so a finished run is lengthened by appending one. A cycle's last
    `long_share` of steps, counted from the run's start, use rows of the whole context: every
    position the model admits is trained, at a price only paid at the end.
    """

    cycles: tuple[Cycle, ...]
    step_tokens: int = 3072
    row_tokens: int = 256
    long_share: float = 0.1
    inner_lr: float = 0.02
    outer_lr: float = 4e-3
    warmup: int = 40
    final_lr_share: float = 0.03
    weight_decay: float = 0.1
    distil: float = 0.0

    @property
    def steps(self) -> int:
        """Length of the whole run."""
        return self.cycles[-1].end

    def cycle(self, step: int) -> Cycle:
        """The cycle this step belongs to."""
        return next(cycle for cycle in self.cycles if step < cycle.end)

    def row_length(self, step: int) -> int:
        """Tokens per row at this step."""
        is_late = step >= self.cycle(step).end * (1 - self.long_share)
        return CONTEXT if is_late else self.row_tokens


TARGET_SHAPE = Shape(hidden=256, layers=6, heads=4, kv_heads=2, mlp=640)
DRAFT_SHAPE = Shape(hidden=128, layers=2, heads=2, kv_heads=1, mlp=256)

TARGET_SCHEDULE = Schedule(
    cycles=(
        Cycle(end=290, horizon=480, cooldown=80),
        Cycle(end=380, horizon=600, cooldown=30, split_breaks=0.25),
        Cycle(end=900, horizon=1100, cooldown=150, split_breaks=0.25),
    ),
)
DRAFT_SCHEDULE = Schedule(
    cycles=(
        Cycle(end=110, horizon=360, cooldown=45),
        Cycle(end=150, horizon=360, cooldown=40, split_breaks=0.25),
        Cycle(end=320, horizon=460, cooldown=80, split_breaks=0.25),
    ),
    warmup=20,
    distil=0.8,
)
