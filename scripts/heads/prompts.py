"""Short instructions about code, ideas and sums: what the target answers to be learnt from.

All of them are written here or put together from lists here; none comes from a benchmark.
"""

import random

LANGUAGES = ("Python", "Python", "Python", "JavaScript", "Rust", "Go", "C", "SQL", "bash")
TASKS = (
    "reverses the words of a sentence",
    "counts how often each letter occurs in a text",
    "finds the second largest number of a list",
    "checks whether two strings are anagrams",
    "removes duplicates from a list and keeps the order",
    "converts a Roman numeral to a number",
    "flattens a nested list",
    "computes the n-th Fibonacci number without recursion",
    "splits a list into chunks of a given size",
    "groups records by one of their fields",
    "validates an e-mail address",
    "reads a configuration file and falls back to defaults",
    "retries a call with exponential backoff",
    "transposes a matrix",
    "finds the longest common prefix of some strings",
    "parses a date in the form YYYY-MM-DD",
    "searches a sorted array by halving",
    "computes a moving average",
    "writes a list of rows to a CSV file",
    "caches the results of another function",
    "walks a folder and sums the sizes of its files",
    "turns snake_case into camelCase",
    "checks whether brackets are balanced",
    "finds the shortest path in a grid",
    "rotates an image given as a matrix by 90 degrees",
    "measures how long a block of code takes",
    "downloads a page and returns its title",
    "compares two dictionaries and reports the differences",
    "generates all permutations of a list",
    "rounds a price to two decimal places",
)
IDEAS = (
    "recursion", "a hash table", "a race condition", "garbage collection", "a REST API",
    "dependency injection", "big O notation", "a database index", "a closure", "unit testing",
    "continuous integration", "a mutex", "public-key encryption", "the event loop",
    "a linked list", "virtual memory", "compound interest", "photosynthesis", "inflation",
    "natural selection", "a black hole", "the greenhouse effect", "the water cycle",
    "how vaccines work", "a neural network", "gradient descent", "overfitting",
    "Bayes' theorem", "the speed of light", "supply and demand",
)  # fmt: skip
PAIRS = (
    ("a set", "a dictionary"), ("TCP", "UDP"), ("a process", "a thread"), ("SQL", "NoSQL"),
    ("git merge", "git rebase"), ("a class", "an instance"), ("weather", "climate"),
    ("a compiler", "an interpreter"), ("GET", "POST"), ("a stack", "a queue"),
    ("mean", "median"), ("a virus", "a bacterium"), ("mass", "weight"), ("HTTP", "HTTPS"),
)  # fmt: skip
QUESTIONS = (
    "How do I sleep better before an exam?",
    "Suggest a three-day plan for a visit to Lisbon.",
    "Write a short, polite note to move a meeting to Thursday.",
    "What can I cook with rice, eggs and spinach?",
    "Give me five tips for learning a language on my own.",
    "How do I keep basil alive on a windowsill?",
    "Write a short story about a lighthouse keeper.",
    "What are the pros and cons of working from home?",
    "How should I prepare for a job interview as a programmer?",
    "Summarise how a bill becomes law in two paragraphs.",
    "Which exercises help against back pain from sitting?",
    "Write a product description for a wooden desk lamp.",
    "How do I undo the last commit in git?",
    "How do I find which process uses a port on Linux?",
    "My Docker container exits at once. How do I find out why?",
    "When should I use a dataclass?",
    "How do I profile a slow Python script?",
    "What does this error mean: IndexError: list index out of range?",
)
SUMS = (
    "A shop sells pens at {a} cents and notebooks at {b} cents. What do {c} pens and {d} notebooks"
    " cost? Show your work.",
    "A rectangle is {a} cm long and {b} cm wide. What are its area and its perimeter?",
    "Anna is {c} years older than Ben. Together they are {a} years old. How old is each?",
    "A car drives {a} km in {c} hours. How far does it come in {d} hours at the same speed?",
    "Solve for x: {c}x + {d} = {a}. Explain every step.",
    "What is {c} percent of {a}? Explain how to compute it.",
    "A recipe for {c} people needs {a} g of flour. How much is needed for {d} people?",
    "The numbers are {a}, {b}, {c} and {d}. What is their average? Think step by step.",
)
SNIPPETS = (
    "def area(w, h):\n    return w * h\n\n\ndef volume(w, h, d):\n    return area(w, h) * d\n",
    "names = []\nfor user in users:\n    if user.active:\n        names.append(user.name)\n",
    "def load(path):\n    f = open(path)\n    data = f.read()\n    f.close()\n    return data\n",
    "class Counter:\n    def __init__(self):\n        self.n = 0\n\n    def add(self, by=1):\n"
    "        self.n += by\n        return self.n\n",
    "def mean(xs):\n    s = 0\n    for x in xs:\n        s = s + x\n    return s / len(xs)\n",
    "function greet(name) {\n  if (name == null) {\n    name = 'you';\n  }\n"
    "  return 'Hello, ' + name + '!';\n}\n",
)
EDITS = (
    "Explain what this code does.",
    "Add docstrings and type hints. Reply with the whole code.",
    "Make this shorter without changing what it does.",
    "Write unit tests for this.",
    "Find a problem in this code and fix it.",
)
PEOPLE = ("Mira", "Tom", "Ines", "Raj", "Lena", "Omar")
THINGS = ("the report", "two tickets", "the keys", "a new router", "the invoice", "some paint")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
SEED = 7


def prompts() -> list[str]:
    """Every instruction once, mixed by the seed."""
    draw = random.Random(SEED)
    found = [f"Write a {draw.choice(LANGUAGES)} function that {task}." for task in TASKS]
    found += [f"Write a Python function that {task}, and explain it briefly." for task in TASKS]
    found += [f"Explain {idea} in simple terms." for idea in IDEAS]
    found += [f"What is {idea}, and why does it matter?" for idea in IDEAS]
    found += [f"What is the difference between {one} and {other}?" for one, other in PAIRS]
    found += QUESTIONS
    for text in SUMS * 4:
        a, b = draw.randrange(40, 400, 5), draw.randrange(20, 90, 2)
        found.append(text.format(a=a, b=b, c=draw.randrange(2, 9), d=draw.randrange(3, 12)))
    found += [f"{edit}\n\n```\n{code}```" for edit in EDITS for code in SNIPPETS]
    found += [extract(draw) for _ in range(12)]
    draw.shuffle(found)
    return found


def extract(draw: random.Random) -> str:
    """A few sentences to be brought into order."""
    lines = [
        f"{name} brings {thing} on {draw.choice(DAYS)} at {draw.randrange(8, 18)}:30."
        for name, thing in zip(draw.sample(PEOPLE, 4), draw.sample(THINGS, 4), strict=True)
    ]
    form = draw.choice(("a table with name, thing and day", "JSON", "a list, one line a person"))
    return f"Bring this into {form}.\n\n{' '.join(lines)}"
