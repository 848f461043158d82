"""Paths, threads and the overrides."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from paceline.errors import ConfigError, UnknownNameError
from paceline.kernels.library import PATHS, features, use_path, use_threads
from paceline.kernels.packed import pack

HERE = features()


@pytest.fixture(autouse=True)
def _restore_path_and_threads():
    yield
    use_path(HERE.path)
    use_threads(HERE.threads)


def ask(code, **environment):
    """Run Python with an environment of its own."""
    return subprocess.run(
        [sys.executable, "-c", f"from paceline.kernels.library import *\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_portable_path_runs_everywhere_and_the_fastest_is_taken():
    assert HERE.paths[0] == "portable"
    chosen = ask("print(features().path)", PACELINE_KERNELS="").stdout.strip()
    assert chosen == HERE.paths[-1]


@pytest.mark.parametrize("path", HERE.paths)
def test_the_environment_chooses_a_path(path):
    assert ask("print(features().path)", PACELINE_KERNELS=path).stdout.strip() == path


def test_an_unknown_path_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'avx512'"):
        use_path("avx-512")
    asked = ask("features()", PACELINE_KERNELS="portabel")
    assert "did you mean 'portable'?" in asked.stderr


@pytest.mark.parametrize("path", [path for path in PATHS if path not in HERE.paths] or ["sse"])
def test_a_path_this_cpu_lacks_is_refused(path):
    with pytest.raises(ConfigError, match=path):
        use_path(path)


def test_threads_can_be_changed_and_foolish_counts_are_refused():
    for count in (1, 3, 2):
        use_threads(count)
        assert features().threads == count
    for count in (0, -1, 1025):
        with pytest.raises(ConfigError, match=str(count)):
            use_threads(count)


def test_a_missing_library_is_told_with_its_mend():
    asked = ask("print(available()); library()", PACELINE_LIBRARY="nowhere.so")
    assert asked.stdout.strip() == "False"
    assert "install a C++ compiler and reinstall" in asked.stderr


def test_calls_from_several_threads_do_not_disturb_one_another():
    use_threads(2)
    weight = pack("F32", 64, 64, torch.eye(64).view(torch.uint8).flatten().numpy())
    rows = torch.arange(4 * 64.0).view(4, 1, 64)
    results = [[] for _ in rows]

    def work(index):
        for _ in range(200):
            results[index].append(weight.linear(rows[index]))

    workers = [threading.Thread(target=work, args=(index,)) for index in range(len(rows))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for row, found in zip(rows, results, strict=True):
        assert all(torch.equal(one, row) for one in found)


@pytest.mark.parametrize("count", ["1", "2"])
def test_there_are_as_many_threads_as_torch_has(count):
    code = "print(features().threads, torch.get_num_threads())"
    ours, theirs = ask(code, OMP_NUM_THREADS=count).stdout.split()
    assert ours == theirs <= count
