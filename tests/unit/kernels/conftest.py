"""Where the native library was not built, its tests do not exist."""

from paceline.kernels.library import available

collect_ignore_glob = [] if available() else ["test_packed_*.py", "test_kernel_*.py"]
