"""llama.cpp through the package llama-cpp-python's low-level API, where there is no llama-bench."""

from __future__ import annotations

import ctypes
from functools import partial
from statistics import median

import llama_cpp

from paceline.bench.peers.passes import PASSES, Workload
from paceline.errors import ConfigError
from paceline.kernels.probe import times_of_each


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _be_silent(*_: object) -> None:
    """Its log tells of every tensor."""


class LlamaPackage:
    """A loaded model with a filled context. All rows have logits.

    Raises:
        ConfigError: llama.cpp does not load the model or run a pass.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        llama_cpp.llama_log_set(_be_silent, None)
        llama_cpp.llama_backend_init()
        path = str(workload.model).encode()
        model = llama_cpp.llama_load_model_from_file(path, llama_cpp.llama_model_default_params())
        if not model:
            raise ConfigError(f"llama.cpp does not load {workload.model}.")
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = workload.context + max(workload.rows) + 1
        settings.n_threads = settings.n_threads_batch = workload.threads
        self._context = llama_cpp.llama_new_context_with_model(model, settings)
        if not self._context:
            raise ConfigError(f"llama.cpp makes no context of {settings.n_ctx} tokens.")
        if workload.context:
            self._decode(0, workload.context)

    def run(self) -> list[float]:
        """The median of three passes for each number of rows, in ms."""
        works = [partial(self._verify, count) for count in self.workload.rows]
        return [1e3 * median(seconds) for seconds in times_of_each(works, PASSES)]

    def _verify(self, rows: int) -> None:
        memory = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_seq_rm(memory, 0, self.workload.context, -1)
        self._decode(self.workload.context, rows)

    def _decode(self, start: int, rows: int) -> None:
        batch = llama_cpp.llama_batch_init(rows, 0, 1)
        batch.n_tokens = rows
        for row in range(rows):
            batch.token[row], batch.pos[row] = 0, start + row
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, 0
            batch.logits[row] = ctypes.c_int8(start > 0 or row == rows - 1)
        status = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if status:
            raise ConfigError(f"llama.cpp's pass of {rows} rows failed with status {status}.")
