# SPDX-License-Identifier: Apache-2.0
"""What a Python answer may define: classes, comprehensions, lambdas and decorators of the standard library, and nothing that runs its own code in the cell."""
import pytest

from hopperlab.checking import answers
from hopperlab.lessons import catalogue

WAITS = catalogue.every()["03.1"]
FUNCTION = "def waits(tiles, copy_first):\n    return []\n"

TAKEN = [
    "from dataclasses import dataclass\nimport functools\n\n\n@dataclass(frozen=True)\nclass Ring:\n    stages: int\n    first: bool = False\n\n    @property\n    def depth(self):\n"
    "        return self.stages - 1\n\n\n@functools.lru_cache(maxsize=None)\ndef helper(n: int) -> int:\n    return n\n",
    "class Base:\n    LIMIT = 3\n\n\nclass Own(Base):\n    \"\"\"Text.\"\"\"\n    __slots__ = ('a',)\n\n    def __init__(self, a):\n        self.a = a\n\n    @staticmethod\n    def f():\n        pass\n",
    "from typing import NamedTuple\n\n\nclass Step(NamedTuple):\n    at: int\n    size: int = 16\n",
    "CODES = {size: code for code, size in enumerate((128, 64, 32), 1)}\nMASKS = [(1 << bits) - 1 for bits in range(4)]\nTOTAL = sum(MASKS[1:]) if len(MASKS) > 2 else 0\n",
    "deepest = lambda given, limit=3: min(given, limit)\nfrom collections import Counter, deque\nimport operator\nfrom functools import cache as kept\n\n\n@kept\ndef f(n):\n    return n\n",
]
RUNS = {
    "a metaclass": "def made(*a, **k):\n    print(1)\n\n\nclass A(metaclass=made):\n    pass\n",
    "a hook of subclasses": "class A:\n    def __init_subclass__(cls):\n        print(1)\n\n\nclass B(A):\n    pass\n",
    "a hook of names": "class A:\n    def __set_name__(self, owner, name):\n        print(1)\n",
    "a subscript of its own class": "class A:\n    def __class_getitem__(cls, key):\n        print(1)\n\n\nX = A[1]\n",
    "a decorator of its own": "def shown(f):\n    print(1)\n    return f\n\n\n@shown\ndef g():\n    pass\n",
    "a decorator whose name is bound again": "from functools import cache\n\n\ndef cache(f):\n    print(1)\n    return f\n\n\n@cache\ndef g():\n    pass\n",
    "a decorator whose name is bound again in a class": "from functools import cache\n\n\nclass A:\n    def cache(f):\n        print(1)\n\n    @cache\n    def g(self):\n        pass\n",
    "a call of its own": "def f():\n    print(1)\n\n\nX = f()\n",
    "a call by a builtin": "def f(n):\n    print(n)\n\n\nX = min([1, 2], key=f)\n",
    "a builtin's name for its own": "def f(n=0):\n    print(n)\n    return []\n\n\nX = [range(3) for range in [f]]\n",
    "a method": "import numpy as np\nX = np.fromfile('x')\n",
    "code in a class": "class A:\n    for i in range(3):\n        print(i)\n",
    "an import in a class": "class A:\n    import os\n",
    "code after the function": "waits(1, True)\n",
    "a default that is computed": "X = lambda n=open('x'): n\n",
    "another module": "import os\n",
}


@pytest.mark.parametrize("text", TAKEN)
def test_definitions_are_taken(text):
    cell = text + "\n\n" + FUNCTION
    assert answers.body(WAITS, cell) == cell
    exec(compile(cell, "answer", "exec"), {"__name__": "answer"})


@pytest.mark.parametrize("why", RUNS)
def test_what_would_run_is_refused_with_its_line(why):
    with pytest.raises(answers.Refused, match=r"line \d+: an answer holds imports of .*constants, functions and classes, nothing else"):
        answers.body(WAITS, FUNCTION + "\n\n" + RUNS[why])


def test_the_function_may_be_a_lambda():
    answers.body(WAITS, "waits = lambda tiles, copy_first: [0] * tiles\n")
    with pytest.raises(answers.Refused, match="must define the function waits"):
        answers.body(WAITS, "waits = 3\n")
