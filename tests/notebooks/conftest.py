# SPDX-License-Identifier: Apache-2.0
"""What several tests of notebooks read."""
import pytest

from hopperlab.authoring import hashes


@pytest.fixture(scope="session")
def chinese():
    """The folder of the Chinese edition's notebooks."""
    from hopperlab.authoring.editions import language_edition
    return language_edition.of(hashes.ROOT, "zh") / "notebooks"
