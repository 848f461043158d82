"""How far a pull or a load is, told to whoever asked."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""progress(done_bytes, total_bytes, what)"""
Report = Callable[[int, int], None]
"""Called with (done, total) pieces of work."""
