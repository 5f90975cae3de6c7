# SPDX-License-Identifier: Apache-2.0
"""What a Python answer may define: classes, comprehensions, lambdas and decorators of the standard library, and nothing that runs its own code in the cell."""
import pytest

from hopperlab.checking import answers
from hopperlab.lessons import catalogue

WAITS = catalogue.every()["03.1"]
FUNCTION = "def waits(tiles, copy_first):\n    return []\n"

TAKEN = [
    "from dataclasses import dataclass\nimport functools\n\n\n@dataclass(frozen=True)\nclass Ring:\n    stages: int\n    first: bool = False\n\n    "
    "@property\n    def depth(self):\n"
    "        return self.stages - 1\n\n\n@functools.lru_cache(maxsize=None)\ndef helper(n: int) -> int:\n    return n\n",
    "class Base:\n    LIMIT = 3\n\n\nclass Own(Base):\n    \"\"\"Text.\"\"\"\n    __slots__ = ('a',)\n\n    def __init__(self, a):\n        self.a = a\n\n    "
    "@staticmethod\n    def f():\n        pass\n",
    "from typing import NamedTuple\n\n\nclass Step(NamedTuple):\n    at: int\n    size: int = 16\n",
    "CODES = {size: code for code, size in enumerate((128, 64, 32), 1)}\nMASKS = [(1 << bits) - 1 for bits in range(4)]\nTOTAL = sum(MASKS[1:]) if len(MASKS) "
    "> 2 else 0\n",
    "deepest = lambda given, limit=3: min(given, limit)\nfrom collections import Counter, deque\nimport operator\nfrom functools import cache as "
    "kept\n\n\n@kept\ndef f(n):\n    return n\n",
    "from __future__ import annotations\nfrom collections.abc import Iterator\nimport math\nimport numpy as np\nA, B = 2, 3\nLOWEST = -math.inf\nF32 = "
    "np.float32\nHALVES = math.ceil(A / 2)\n",
    "import collections\nfrom functools import partial\nfrom operator import itemgetter\nPoint = collections.namedtuple('Point', 'x y', defaults=(0, "
    "0))\nMISSING = collections.defaultdict(list)\n"
    "key = itemgetter(1)\nadd = partial(sum, start=1)\nTABLE = dict(zip('ab', [1, 2]))\n",
    "from dataclasses import dataclass, field\n\n\n@dataclass\nclass Seen:\n    tiles: list = field(default_factory=list)\n    sum: int = 0\n\n    class "
    "Place:\n        row = 0\n\n"
    "    def total(self):\n        return sum(self.tiles)\n",
    "from abc import ABC, abstractmethod\n\n\nclass Base(ABC):\n    @abstractmethod\n    def f(self): ...\n\n    @property\n    def x(self):\n        return "
    "1\n\n    @x.setter\n    def x(self, value):\n        pass\n",
    "import math\nINSIDE = [index * 2 for index in range(3)]\nINFINITE = math.inf\n\n\ndef f():\n    import math\n    index = 1\n    return math.pi * index\n",
    "from enum import Enum, IntEnum, auto\n\n\nclass Kind(str, Enum):\n    ARRIVE = 'arrive'\n    COMPLETE = 'complete_tx'\n\n    @property\n    def "
    "short(self):\n        return self.value[0]\n\n"
    "    def __str__(self):\n        return self.value\n\n\nclass Code(IntEnum):\n    PLAIN = 0\n    WIDE = auto()\n\n\nWIDEST = Code.WIDE\nCODES = {128: "
    "Code.WIDE, 0: Code.PLAIN.value}\n",
    "import enum\nimport typing\n\n\nclass Base(enum.IntFlag):\n    def bits(self):\n        return bin(self)\n\n\nclass Mode(Base):\n    A = 1\n    B = "
    "enum.auto()\n    BOTH = A | B\n\n\n"
    "class Step(typing.NamedTuple):\n    at: int = 0\n\n\nBITS = Mode.A | Mode.B\n",
    "SPAN = 128\nNAME = f'{SPAN}B, {SPAN // 16:>3} pieces, {SPAN!r}'\nALL = [*range(3), *(4, 5)]\nBASE = {128: 1}\nMORE = {**BASE, 64: 2}\nCODES = {v: k for "
    "k, v in BASE.items()}\n"
    "WORDS = 'memory multipliers'.split()\nMASK = 0x70\nMASK |= 0x80\nTEXT = ','.join(str(i) for i in range(3))\nDEEP = SPAN.bit_length()\n",
    "import itertools\nimport numpy as np\nfrom fractions import Fraction\nSQUARES = np.array([i * i for i in range(4)], dtype=np.int64)\nHALF = Fraction(1, 2)\n"
    "PLACES = list(itertools.product(range(2), range(3)))\nWEIGHTS = np.arange(8) * 2\n",
    "from collections import Counter, defaultdict\nimport collections\nRULES = [lambda a, b: a < b, lambda a, b=2: helper(a) % b == 0]\nBY_NAME = "
    "{'double': lambda n: 2 * n, 'both': (min, lambda n: n)}\nDEEP = defaultdict(lambda: defaultdict(int))\nFAR = defaultdict(lambda: float('inf'))\nSEEN = "
    "defaultdict(collections.Counter)\n\n\ndef helper(n):\n    return n\n",
]
OWN = "class Own:\n    def __init__(self, *given):\n        print(1)\n\n    def keys():\n        print(1)\n\n\n"
RUNS = {
    "a builtin decorator whose name the class binds": OWN + "class A:\n    staticmethod = Own\n\n    @staticmethod\n    def f():\n        pass\n",
    "a builtin function whose name the class binds": OWN + "class A:\n    list, n = Own, 1\n    x = list((1, 2))\n",
    "a builtin function whose name is a class in the class": OWN + "class A:\n    class list(Own):\n        pass\n    x = list((1, 2))\n",
    "a setter of what is no property": OWN + "class A:\n    g = Own\n\n    @g.setter\n    def g(self, value):\n        pass\n",
    "a property bound again before its setter": OWN + ("class A:\n    @property\n    def g(self):\n        return 1\n    g = Own\n\n    @g.setter\n    def "
                                                       "g(self, value):\n        pass\n"),
    "a class taken for a mapping": OWN + "X = dict(Own)\n",
    "a class behind another name taken for a mapping": OWN + "X = [Own]\nY = [dict(one) for one in X]\n",
    "a class unpacked": OWN + "X = {**Own}\n",
    "a class unpacked as keywords": OWN + "from functools import partial\nX = partial(print, **Own)\n",
    "a class that a defaultdict copies": OWN + "from collections import defaultdict\nX = defaultdict(int, Own)\n",
    "what a partial makes, called": "from functools import partial\nX = partial(print, 1)()\n",
    "a default factory of the answer's, asked by the next constant": "from collections import defaultdict\nX = defaultdict(lambda: print(1))\nY = X[0]\n",
    "a default factory by its name": "from collections import defaultdict\n\n\ndef f():\n    print(1)\n\n\nX = defaultdict(f)\nY = X[0]\n",
    "a lambda of a list, called": "X = [lambda: print(1)]\nY = X[0]()\n",
    "a lambda of a dictionary, called": "X = {0: lambda: print(1)}\nY = [one() for one in X.values()]\n",
    "a lambda of a list whose default calls": "X = [lambda n=print(1): n]\n",
    "a default factory, called": "from collections import defaultdict\nX = defaultdict(print)[0]\n",
    "math, bound again": "import math\n\n\nclass math:\n    def ceil(x):\n        print(1)\n\n\nX = math.ceil(1)\n",
    "math, bound again by a comprehension": OWN + "import math\nX = [math.ceil(1) for math in [Own]]\n",
    "an attribute of its own": "def f():\n    pass\n\n\nX = f.__globals__\n",
    "a builtin's name in a tuple": "len, b = 1, 2\n",
    "a metaclass": "def made(*a, **k):\n    print(1)\n\n\nclass A(metaclass=made):\n    pass\n",
    "a hook of subclasses": "class A:\n    def __init_subclass__(cls):\n        print(1)\n\n\nclass B(A):\n    pass\n",
    "a hook of names": "class A:\n    def __set_name__(self, owner, name):\n        print(1)\n",
    "a subscript of its own class": "class A:\n    def __class_getitem__(cls, key):\n        print(1)\n\n\nX = A[1]\n",
    "a decorator of its own": "def shown(f):\n    print(1)\n    return f\n\n\n@shown\ndef g():\n    pass\n",
    "a decorator whose name is bound again": "from functools import cache\n\n\ndef cache(f):\n    print(1)\n    return f\n\n\n@cache\ndef g():\n    pass\n",
    "a decorator whose name is bound again in a class": "from functools import cache\n\n\nclass A:\n    def cache(f):\n        print(1)\n\n    @cache\n    "
                                                        "def g(self):\n        pass\n",
    "a call of its own": "def f():\n    print(1)\n\n\nX = f()\n",
    "a call by a builtin": "def f(n):\n    print(n)\n\n\nX = min([1, 2], key=f)\n",
    "a builtin's name for its own": "def f(n=0):\n    print(n)\n    return []\n\n\nX = [range(3) for range in [f]]\n",
    "a method": "import numpy as np\nX = np.fromfile('x')\n",
    "code in a class": "class A:\n    for i in range(3):\n        print(i)\n",
    "an import in a class": "class A:\n    import os\n",
    "code after the function": "waits(1, True)\n",
    "a default that is computed": "X = lambda n=open('x'): n\n",
    "another module": "import os\n",
    "a method that makes an enumeration's members": "from enum import Enum\n\n\nclass A(Enum):\n    X = 1\n\n    def __init__(self, value):\n        print(1)\n",
    "a method that makes values": "from enum import Enum, auto\n\n\nclass A(Enum):\n    def _generate_next_value_(name, *rest):\n        print(1)\n    X = auto()\n",
    "an enumeration that is also one of its own classes": OWN + "from enum import Enum\n\n\nclass A(Own, Enum):\n    X = 1\n",
    "an enumeration's enumeration with such a method": "import enum\n\n\nclass B(enum.Enum):\n    def f(self):\n        pass\n\n\nclass A(B):\n    X = 1\n\n  "
                                                       "  def __new__(cls, value):\n        print(1)\n",
    "a member shown by its own method": "from enum import Enum\n\n\nclass A(Enum):\n    X = 1\n\n    def __str__(self):\n        print(1)\n        return "
                                        "''\n\n\nT = f'{A.X}'\n",
    "a value that is a property of its own": "from enum import Enum\n\n\nclass A(Enum):\n    X = 1\n\n    @property\n    def value(self):\n        "
                                             "print(1)\n\n\nT = A.X.value\n",
    "a property of a member": "from enum import Enum\n\n\nclass A(Enum):\n    X = 1\n\n    @property\n    def shown(self):\n        print(1)\n\n\nT = A.X.shown\n",
    "a dictionary's name that is a class in a comprehension": OWN + "D = {}\nX = [D.keys() for D in (Own,)]\n",
    "a method of its own class with a dictionary's name": OWN + "X = Own.keys()\n",
    "a class merged into a dictionary": OWN + "D = {}\nD |= Own\n",
    "an array of its own": OWN + "import numpy as np\nX = np.array(Own)\n",
    "a function called by numpy": "import numpy as np\n\n\ndef f(i):\n    print(i)\n\n\nX = np.fromfunction(f, (3,))\n",
    "a function called by itertools": "import itertools\n\n\ndef f(i):\n    print(i)\n\n\nX = list(itertools.starmap(f, [(1,)]))\n",
}


@pytest.mark.parametrize("text", TAKEN)
def test_definitions_are_taken(text):
    cell = text + "\n\n" + FUNCTION
    assert answers.body(WAITS, cell) == cell
    exec(compile(cell, "answer", "exec"), {"__name__": "answer"})


@pytest.mark.parametrize("why", RUNS)
def test_what_would_run_is_refused_with_its_line(why):
    with pytest.raises(answers.Refused, match=r"line \d+: (an answer holds imports of .*constants, functions and classes, nothing else|the name len is not "
                                              r"the answer's)"):
        answers.body(WAITS, FUNCTION + "\n\n" + RUNS[why])


def test_the_function_may_be_a_lambda():
    answers.body(WAITS, "waits = lambda tiles, copy_first: [0] * tiles\n")
    with pytest.raises(answers.Refused, match="must define the function waits"):
        answers.body(WAITS, "waits = 3\n")


def test_what_only_tries_the_answer_under_the_main_guard_is_left_out():
    cell = FUNCTION + "\n\nif __name__ == '__main__':\n    print(waits(3, True))\n"
    assert answers.body(WAITS, cell).rstrip() == FUNCTION.rstrip()
    for other in (cell + "else:\n    print(2)\n", cell.replace("==", "!=")):
        with pytest.raises(answers.Refused):
            answers.body(WAITS, other)
