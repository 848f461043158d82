"""A few prompts of each kind that drafters are compared on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

READER = '''\
class Reader:
    """Read records from a file."""

    def __init__(self, path, encoding="utf-8"):
        self.path = path
        self.encoding = encoding
        self.lines = []

    def read(self):
        with open(self.path, encoding=self.encoding) as file:
            for line in file:
                self.lines.append(line.rstrip())
        return self.lines
'''

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "complete": (
            "import os\n\n\ndef find_files(root, suffix):\n",
            'class Stack:\n    """A last-in, first-out queue."""\n\n    def __init__(self):\n',
        ),
        "edit": (
            f"{READER}\n# The same class, with `path` renamed to `filename`:\n\nclass Reader:\n",
            f"{READER}\n# The same class, with a method that counts lines:\n\nclass Reader:\n",
        ),
        "extract": (
            f"{READER}\n# The names of the methods of the class above:\n",
            "names = ['anna', 'bert', 'carl']\nages = [31, 42, 53]\n# The same as a table:\n",
        ),
        "chat": (
            "What is the difference between a list and a tuple in Python?\n",
            "How do I read a file line by line in Python?\n",
        ),
        "maths": (
            "What is 17 * 23? Work it out step by step.\n",
            "A train goes 60 km in 45 minutes. How fast is it in km/h?\n",
        ),
    }
)
