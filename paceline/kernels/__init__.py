"""A pass over a model: what it computes (`ops`), on what (`batch`), and who runs it."""

from paceline.kernels.batch import Batch, KVTensors, PassOutput, Segment
from paceline.kernels.ops import Program
from paceline.kernels.reference import run

__all__ = ["Batch", "KVTensors", "PassOutput", "Program", "Segment", "run"]
