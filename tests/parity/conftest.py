"""Where the native library was not built, its tests do not exist; the reference's still run."""

from paceline.kernels.library import available

collect_ignore_glob = [] if available() else ["test_native_*.py"]
