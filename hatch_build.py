# SPDX-License-Identifier: Apache-2.0
"""What a wheel carries beside the package: the course itself, as hopperlab/course, so that an installation is a course and not only a tool.

An editable installation takes notebooks, exercises and docs from the clone, so nothing is added there.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "hopperlab/course"
# What is taken of each folder; English sources of lessons and solutions of exercises stay out.
PARTS = {"notebooks": ("*.ipynb",), "exercises": ("*.ipynb", "conftest.py", ".pristine/*.ipynb"), "docs": ("**/*",)}


# Translations of their text, of which other editions are made (hopperlab/authoring/editions/language_edition.py).
TRANSLATIONS = ("notebooks/sources/*/*.md", "solutions/sources/*/*.md")


class CourseHook(BuildHookInterface):
    """Adds the course's files to a standard wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is 'standard' or 'editable'. Raises FileNotFoundError where the folders are missing, as a wheel without a course would surprise."""
        if version == "editable":
            return
        root = Path(self.root)
        for folder, patterns in PARTS.items():
            paths = sorted(path for pattern in patterns for path in (root / folder).glob(pattern) if path.is_file())
            if not paths:
                raise FileNotFoundError(f"{root / folder} holds nothing of the course: build from a clone or from the source archive")
            for path in paths:
                build_data["force_include"][str(path)] = f"{TARGET}/{path.relative_to(root).as_posix()}"
        for path in (path for pattern in TRANSLATIONS for path in root.glob(pattern)):
            build_data["force_include"][str(path)] = f"{TARGET}/{path.relative_to(root).as_posix()}"
