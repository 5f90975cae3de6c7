# SPDX-License-Identifier: Apache-2.0
"""Runs the PTX of Hopper kernels without a GPU, with real asynchrony, and names the missing wait or fence at its line.

PTX in, memory out: `Program(ptx)`, then `launch(program, name, grid, block, args)`. Knows nothing of CuPy or notebooks.
"""
from .machine import memory
from .errors import BudgetExceeded, DeadlockError, EmulatorError, HazardError, HazardWarning, LaunchError, MemoryFault
from .isa import UnsupportedInstruction
from .grids import Grids, Queue
from .launch import launch, plan
from .program import KernelInfo, ParamInfo, Program
from .session import Event, Hazard, Session

__all__ = ["BudgetExceeded", "DeadlockError", "EmulatorError", "Event", "Grids", "Hazard", "HazardError", "HazardWarning", "KernelInfo", "LaunchError", "MemoryFault",
           "ParamInfo", "Program", "Queue", "Session", "UnsupportedInstruction", "launch", "memory", "plan"]
