# SPDX-License-Identifier: Apache-2.0
"""The child that runs a Python answer: reads {text, name, arguments} from standard input, prints {values} or {error}.

Runs alone (`python -I python_child.py`), with limits on memory and time set before the answer's text is compiled.
"""
import json
import resource
import signal
import sys
import traceback
import types
from typing import Any

MEMORY, CPU_SECONDS, FILE_BYTES = 2 << 30, 15, 1 << 20


class TooLong(BaseException):
    """The time is over; not an Exception, so that an answer that catches those does not catch this."""


def _stop(*_: Any) -> None:
    raise TooLong


def limit_time() -> int:
    """Seconds of processor time that the answer has: at their end it is told so, and a second later the process is killed, whatever it does."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    end = CPU_SECONDS + 1 if hard == resource.RLIM_INFINITY else min(CPU_SECONDS + 1, hard)      # a sandbox may have set a lower one
    signal.signal(signal.SIGXCPU, _stop)
    resource.setrlimit(resource.RLIMIT_CPU, (max(end - 1, 1), end))
    return max(end - 1, 1)


def main() -> None:
    """One request, one line of JSON on the real standard output; whatever the answer prints goes nowhere."""
    asked = json.loads(sys.stdin.read())
    out, sys.stdout = sys.stdout, open("/dev/null", "w")        # noqa: SIM115 - open until this process ends
    seconds = limit_time()
    for what, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, FILE_BYTES)):
        hard = resource.getrlimit(what)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)      # a sandbox may have set a lower one
        resource.setrlimit(what, (limit, limit))
    answer: dict[str, Any]
    try:
        module = sys.modules["answer"] = types.ModuleType("answer")                # where dataclasses look names up
        exec(compile(asked["text"], "answer", "exec"), vars(module))
        function = vars(module)[asked["name"]]
        answer = {"values": [plain(function(*given)) for given in asked["arguments"]]}
    except TooLong:
        answer = {"error": f"{asked['name']} did not return within {seconds} s."}
    except BaseException as error:                                                 # also SystemExit and KeyboardInterrupt of an answer
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "answer"]
        where = f" (line {lines[-1]} of the cell)" if lines else ""
        alone = ". An answer cell is run by itself: what other cells of the notebook define or import is not there" if isinstance(error, NameError) else ""
        answer = {"error": f"{asked['name']} raised {type(error).__name__}: {error}{where}{alone}"[:2000]}
    out.write("\n" + json.dumps(answer) + "\n")
    out.flush()


def plain(value: Any) -> Any:
    """Numbers, strings, None, and lists of them; NumPy values become Python's. Raises TypeError for anything else."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"the function returned a {type(value).__name__}; return numbers, strings, or lists of them")


if __name__ == "__main__":
    main()
