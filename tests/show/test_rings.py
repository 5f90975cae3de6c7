# SPDX-License-Identifier: Apache-2.0
"""What a ring of buffers did in a run, and its hazards in words."""

import re

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import show


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


def test_ring_timeline_shows_every_copy_before_its_use():
    matrix, target = np.ones((128, 320), np.float16), np.zeros((128, 320), np.float16)
    maps = [hl.TensorMap.tiled(a, box=(64, 64), swizzle="128B") for a in (matrix, target)]
    ring = hl.load_kernel("copy/tma_copy.cu", "tma_copy_ring", ("-DSTAGES=4",))
    with hl.emulate() as run:
        ring((2,), (32,), (*maps, np.int32(128), np.int32(320)), shared_mem=4 * 8192)
    spans = show.ring_spans(run, 4)
    copies = {span.label: span for span in spans if span.kind == "copy under way"}
    assert sorted(copies) == [f"copy {i}" for i in range(5)] and all(span.end > span.start for span in spans if span.label)
    assert len([span for span in spans if span.kind == "store issued"]) == 5
    assert [span.row for span in spans] == sorted(span.row for span in spans)
    assert "copy under way" in show.ring_timeline(run, 4, "A ring").text


def test_ring_timeline_of_a_specialised_product_alternates_copy_and_use():
    from hopperlab.authoring.docs import pictures

    spans = show.ring_spans(pictures.pipeline_run(), pictures.STAGES)
    assert len(spans) == 2 * pictures.TILES
    for buffer in range(pictures.STAGES):
        row = [span for span in spans if span.row == f"slot {buffer}"]
        row.sort(key=lambda span: span.start)
        assert [span.kind for span in row] == ["copy under way", "in use by the tensor cores"] * (len(row) // 2)
        assert all(early.end <= late.start for early, late in zip(row, row[1:]))


def test_hazards_in_words_name_both_lines_and_no_folder():
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_copy", ("-DBUG_NO_FULL_WAIT=1",))
    a, b = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    maps = [hl.TensorMap.tiled(array, box=(64, 64), swizzle="128B") for array in (a, b)]
    with hl.emulate(hazards="collect") as run:
        kernel((1, 1), (32,), (*maps,), shared_mem=8192)
    words = show.hazards(run)
    assert "read-before-arrival at tma_copy.cu:" in words and ", against tma_copy.cu:" in words
    assert "/" not in show.explain(run.hazards[0]).replace("and/or", "")
    assert len(show.lines_named(run, "copy/tma_copy.cu")) == 2
    with hl.emulate(hazards="collect") as quiet:
        pass
    assert show.hazards(quiet).startswith("No hazard")


def test_a_warning_is_said_where_no_hazard_is():
    """A run that is clean but for the reader's proxy fence is not called ordered."""
    source = hl.kernel_source("mbarrier/ring.cu")
    unfenced = source.replace("fence_proxy_async_shared_cta(), ", "")
    assert unfenced != source
    words = {}
    for text in (source, unfenced):
        x, y = np.zeros((16, 512), np.float32), np.zeros((16, 512), np.float32)
        with hl.emulate(hazards="collect") as run:
            hl.RawModule(code=text, name="ring.cu", backend="emulator").get_function("fold")((1,), (160,), (x, y, np.int32(16)))
        words[text] = show.hazards(run)
    assert words[source] == "No hazard: every access is ordered, whatever the landing order."
    assert re.fullmatch(r"No hazard, \d warnings?: unfenced-overwrite at ring\.cu:\d+, against ring\.cu:\d+(; unfenced-overwrite at ring\.cu:\d+, against "
                        r"ring\.cu:\d+)*", words[unfenced])
