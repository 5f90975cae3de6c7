"""Pictures made from runs in the emulator, launches behind the panels, and the hazards in words."""

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import show
from hopperlab.hopper.tensormap import TensorMapError


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


TENSOR = np.arange(96, dtype=np.float32).reshape(8, 12)


@pytest.mark.parametrize("swizzle", ["none", "32B"])
@pytest.mark.parametrize("start", [(-1, -4), (0, 0), (6, 8), (-4, -8), (9, 16)])
def test_land_is_the_reference(start, swizzle):
    landed = show.land(TENSOR, start, (4, 8), swizzle)
    assert np.array_equal(landed, show.reference_box(TENSOR, start, (4, 8)))


def test_land_refuses_before_it_launches():
    with pytest.raises(TensorMapError, match="multiple of 16"):
        show.land(TENSOR, (0, 3), (4, 8))
    with pytest.raises(TensorMapError, match="coordinates"):
        show.land(TENSOR, (0,), (4, 8))


def test_land_bytes_shows_the_gap_of_a_narrow_swizzled_box():
    narrow = hl.TensorMap.tiled(TENSOR, box=(4, 8), swizzle="64B")
    raw = show.land_bytes(narrow, (0, 0))
    assert raw.size == 4 * 64 and (raw == 0xEE).sum() == 4 * 32


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
    from hopperlab.notebooks import pictures

    spans = show.ring_spans(pictures.pipeline_run(), pictures.STAGES)
    assert len(spans) == 2 * pictures.TILES
    for buffer in range(pictures.STAGES):
        row = [span for span in spans if span.row == f"buffer {buffer}"]
        row.sort(key=lambda span: span.start)
        assert [span.kind for span in row] == ["copy under way", "in use by the tensor cores"] * (len(row) // 2)
        assert all(early.end <= late.start for early, late in zip(row, row[1:]))


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_pipeline_panel_checks_its_product(schedule):
    title = show.launch_pipeline(3, "128x128", 64, "cg", schedule).figure.axes[0].get_title(loc="left")
    assert "result right, 0 hazards, 32 KiB copied" in title and "48 KiB of shared memory a block; blocks an SM: 2" in title


def test_pipeline_panel_knows_the_wide_tile():
    assert "4 stages of 128x256: result right" in show.launch_pipeline(4, "128x256", 128, "ca", "lazy").figure.axes[0].get_title(loc="left")


def test_pipeline_panel_refuses_what_no_sm_holds():
    with pytest.raises(Exception, match="shared memory"):
        show.launch_pipeline(15, "128x128", 64, "cg", "lazy")


def test_roof_panel_counts_more_bytes_than_the_arrays_hold():
    words = show.launch_on_roof(256, 128, "bf16 product", {"bf16": 800.0}, 4.0).text
    assert "each array once: 256 KiB" in words and "as counted: 384 KiB" in words
    assert show.launch_on_roof(256, 128, "fp32 scaling", {"bf16": 800.0}, 4.0).text.count("256 KiB") == 2


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


def test_kindest_place_keeps_hazards_quiet():
    x = np.zeros(1024, np.float32)
    kernel = hl.load_kernel("start_here/kernel_1.cu", "fold")
    with show.kindest_place() as run:
        kernel((1,), (128,), (x, np.zeros_like(x), np.int32(2)))
    assert run.schedule == "eager" and run.hazards


def test_halo_exercise():
    volume = np.arange(16 ** 3, dtype=np.float32).reshape(16, 16, 16)
    assert show.check_halo(volume, (10, 10, 16), (-1, -1, -4), 10 * 10 * 16 * 4).startswith("Right")
    assert "Not answered" in show.check_halo(volume, None, None, None)
    assert "the tile and its halo are -1 to 8" in show.check_halo(volume, (10, 10, 12), (-1, -1, -4), 4800)
    assert "refuses" in show.check_halo(volume, (10, 10, 12), (-1, -1, -1), 4800)
    assert "counts the whole box" in show.check_halo(volume, (10, 10, 16), (-1, -1, -4), 4000)
