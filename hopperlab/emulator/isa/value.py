# SPDX-License-Identifier: Apache-2.0
"""The type of what registers hold, for annotations."""
from __future__ import annotations

from typing import Any, TypeAlias

Value: TypeAlias = Any
"""One value a lane, an array of shape (n,), or one NumPy scalar where all lanes have the same; what an accumulator holds looks like the former."""
