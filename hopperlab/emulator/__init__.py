"""Runs the PTX of Hopper kernels without a GPU, with real asynchrony, and names the missing wait or fence at its line.

PTX in, memory out: `Program(ptx)`, then `launch(program, name, grid, block, args)`. Knows nothing of CuPy or notebooks.
"""
from . import memory
from .errors import BudgetExceeded, DeadlockError, EmulatorError, HazardError, HazardWarning, LaunchError, MemoryFault
from .isa import UnsupportedInstruction
from .launch import launch
from .program import KernelInfo, ParamInfo, Program
from .session import Event, Hazard, Session

__all__ = ["BudgetExceeded", "DeadlockError", "EmulatorError", "Event", "Hazard", "HazardError", "HazardWarning", "KernelInfo", "LaunchError", "MemoryFault",
           "ParamInfo", "Program", "Session", "UnsupportedInstruction", "launch", "memory"]
