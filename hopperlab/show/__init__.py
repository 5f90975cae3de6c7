"""Figures (Matplotlib) and panels (ipywidgets) built on `hopper/`, `measure/` and runs. Every one has a text fallback.

Imported by the notebooks as `from hopperlab import show`; needs the `lab` extra.
"""

from .answers import check_halo, check_intensities, check_ring
from .bank_maps import SHAPES as ACCESS_SHAPES
from .bank_maps import access_map, access_wavefronts, launch_access
from .banks_lesson import check_xor, counted_beside, whence
from .article import check_repairs, claims_report, loads_in_flight, remaining, run_article, verdict_chart, verdicts
from .boxes import box_explorer, inside, reference_box
from .charts import bars, lines
from .descriptors import check_descriptor, decode_words, descriptor_map, fragment_map, launch_fragment, owner_words, step_table
from .exercise_pictures_04 import draw_phases, draw_ring
from .exercise_pictures_05 import draw_halo
from .exercise_pictures_06 import draw_column_reads
from .exercise_pictures_12 import draw_multicast, draw_shares
from .exercise_pictures_14 import draw_contract, draw_waves
from .exercise_pictures_01 import draw_register_buffer, draw_tiles_ahead
from .exercise_pictures_02 import draw_swizzled_column, draw_turned_corner
from .exercise_pictures_03 import draw_groups, draw_ring_depths
from .excerpts import excerpt, wrapper
from .feeding import enough_in_flight, feeding_chart, launch_tile, littles_law, memory_latency, needs_of, run_tile
from .ladder_start import check_flight, first_steps, step_times
from .clusters import asked_of_l2, check_masks, cluster_map, expected_sums, launch_cluster, run_cluster, tile_traffic, traffic_table, ways_table
from .clusters import numbers as cluster_numbers
from .cpp_pipeline import WAYS, check_engines, launch_cpp_pipeline, pipeline_chart, pipeline_table, run_pipeline, run_way, way_source, ways_chart
from .cpp_pipeline import ways_table as cpp_ways
from .generations import INSTRUCTIONS, accepted, generations_table, issued, issued_chart
from .exercise_pictures_10 import draw_columns_of_consumers, draw_slot_barriers
from .exercise_pictures_11 import draw_large_tile
from .exercise_pictures_13 import draw_serpentine, draw_turns
from .handovers import handover_cost
from .ladder import ladder
from .landing import land, land_bytes
from .mbarriers import barrier_steps, launch_stepper, mbarrier_stepper, ring_counts, ring_run, step_words
from .mma_maps import mma_map, mma_words
from .operands import check_mn_descriptor, launch_operands, major_rates, multiply_operands, operand_builds, operand_costs, operand_numbers
from .operands import rates_chart, step_map, type_rates, wavefronts_beside, wavefronts_of, width_chart
from .overlap import Times, check_later_release, depth_chart, depth_table, enough_stages, halves_chart, halves_gains, halves_table, launch_multistage
from .overlap import overlap_chart, overlap_table, ring_plan, run_product, stage_times
from .panels import Choice, Panel, Slider, panel
from .products import launch_groups, multiply_tile, one_tile_operands
from .profiling import KERNELS, check_counts, count_kernel, counters_beside, issue_share, launch_counters, machine_map, metric_words
from .profiling import profile_chart, profile_table, profiles_table, same_counts, shared_memory_busy, symptoms_table
from .proxies import fenced, handover_diagram, order_diagram, run_places
from .recorded import best_depth, boxes_chart, boxes_table, bugs_table, ceilings, folds_table, gemm_bars, percent_of_peer, stages_chart, timing_lesson
from .recorded_lessons import exchange_chart, if_recorded, reduction_rates, store_table, swizzle_cost, swizzle_reads, wgmma_groups, wgmma_rates
from .reductions import check_split_k, launch_reduce, reduce_tile, reduced, types_table, write_groups
from .registers import budget_chart, budget_table, check_registers, launch_roles, registers_at_entry, role_build, roles_table
from .reports import doctor, explain, hazards, kindest_place, lines_named
from .roles import FIRST, ROLES, check_second_consumer, launch_warp_roles, lead, tiles_on_way, own_load_cost, role_instructions, roles_chart
from .roles import roles_gains, time_by_warp, trace_roles, waiting_share
from .roofline import Point, attainable, gemm_intensity, roofline
from .runs import launch_on_roof, launch_pipeline, ring_spans, ring_timeline
from .sass import sass
from .source import listing, source
from .stages import stage_diagram, stage_plan
from .style import Picture
from .swizzles import access_table, check_addresses, follow_element, launch_columns, read_columns
from .tiles import bank_map, swizzled_tile, tile_table, wavefronts
from .timelines import Span, gantt, timeline
from .two_slots import check_two_slots
from .voting import predict, vote
from .against_cublas import branches_table, gains_table, power_table, shapes_chart
from .choices import check_tuning, choice_model_chart, configuration, described, launch_choice, leaderboard, picks_table, run_choice, small_shape
from .convolutions import SLICES, check_corners, convolution_matrix, convolve, corners, image_of, interleaved, launch_im2col, layout_picture
from .convolutions import layouts_table, load_matrix, load_sliced, output_shape, tail_table, walk, walk_picture, where_from
from .fp8_measured import accuracy_chart, accuracy_table, cut_sum, every_table, fp8_chart, fp8_table, geometric_mean, grouped_table, speed_left, sums_beside
from .fp8_measured import beside_table, once_table, tiles_table
from .fp8_steps import check_wide, exact_operands, promotion_picture, run_fp8, run_grouped, steps_table, tile_traffic_fp8
from .fp8_steps import STEPS as FP8_STEPS
from .inside_tma import announce, check_boxes, descriptor_chart, first_uses, issue_table, latency_chart, latency_table, launch_queue
from .inside_tma import BOXES, latencies, needed, run_queue, unit_map
from .raster import launch_raster, raster_map, reuse_table, tile_order, waves_chart, waves_table
from .scales import SHARING as SCALES
from .scales import WHERE as OUTLIERS
from .scales import e4m3_chart, launch_scales, scales_table
from .schedules import launch_schedule, run_schedule, schedule_model, schedule_timeline, turns, turns_words
from .split_work import check_order, run_fused, run_stream_k, work_map
from .exercise_pictures_07 import draw_split_k, draw_store_slots
from .exercise_pictures_09 import draw_multistage
from .attention import attention_order, attention_timeline, check_merge, launch_attention, overlaps, run_attention
from .attention_charts import attention_chart, attention_designs, attention_steps, attention_table, balance_table, causal_map, counted_blocks, exponential_roofline
from .attention_charts import key_blocks, last_over_first, sharing_table
from .attention_on_gpu import attention_measured
from .fp8_attention import balance_table_fp8, check_place, keys_map, keys_table, launch_attention_fp8, run_attention_fp8, terms_table
from .fp8_attention_charts import attention_fp8_chart, attention_fp8_errors, attention_fp8_table, gain_over_bf16, promotion_cost
from .exercise_pictures_15 import draw_e4m3_error, draw_promotions
from .exercise_pictures_16 import draw_attention_turns, draw_running_maximum

__all__ = ["accepted", "access_map", "ACCESS_SHAPES", "access_table", "access_wavefronts", "accuracy_chart",
           "accuracy_table", "announce", "asked_of_l2", "attainable", "attention_chart", "attention_designs",
           "attention_fp8_chart", "attention_fp8_errors", "attention_fp8_table", "attention_measured",
           "attention_order", "attention_steps", "attention_table", "attention_timeline", "balance_table",
           "balance_table_fp8", "bank_map", "barrier_steps", "bars", "beside_table", "best_depth", "box_explorer", "BOXES",
           "boxes_chart", "boxes_table", "branches_table", "budget_chart", "budget_table", "bugs_table", "causal_map",
           "ceilings", "check_addresses", "check_boxes", "check_corners", "check_counts", "check_descriptor",
           "check_engines", "check_flight", "check_halo", "check_intensities", "check_later_release", "check_masks",
           "check_merge", "check_mn_descriptor", "check_order", "check_place", "check_registers", "check_repairs",
           "check_ring", "check_second_consumer", "check_split_k", "check_tuning", "check_two_slots", "check_wide",
           "check_xor", "Choice", "choice_model_chart", "claims_report", "cluster_map", "cluster_numbers",
           "configuration", "convolution_matrix", "convolve", "corners", "count_kernel", "counted_beside",
           "counted_blocks", "counters_beside", "cpp_ways", "cut_sum", "decode_words", "depth_chart", "depth_table",
           "described", "descriptor_chart", "descriptor_map", "doctor", "draw_attention_turns", "draw_column_reads",
           "draw_columns_of_consumers", "draw_contract", "draw_e4m3_error", "draw_groups", "draw_halo",
           "draw_large_tile", "draw_multicast", "draw_multistage", "draw_phases", "draw_promotions",
           "draw_register_buffer", "draw_ring", "draw_ring_depths", "draw_running_maximum", "draw_serpentine",
           "draw_shares", "draw_slot_barriers", "draw_split_k", "draw_store_slots", "draw_swizzled_column",
           "draw_tiles_ahead", "draw_turned_corner", "draw_turns", "draw_waves", "e4m3_chart", "enough_in_flight",
           "enough_stages", "every_table", "exact_operands", "excerpt", "exchange_chart", "expected_sums", "explain",
           "exponential_roofline", "feeding_chart", "fenced", "FIRST", "first_steps", "first_uses", "folds_table",
           "follow_element", "fp8_chart", "FP8_STEPS", "fp8_table", "fragment_map", "gain_over_bf16", "gains_table",
           "gantt", "gemm_bars", "gemm_intensity", "generations_table", "geometric_mean", "grouped_table",
           "halves_chart", "halves_gains", "halves_table", "handover_cost", "handover_diagram", "hazards",
           "if_recorded", "image_of", "inside", "INSTRUCTIONS", "interleaved", "issue_share", "issue_table", "issued",
           "issued_chart", "KERNELS", "key_blocks", "keys_map", "keys_table", "kindest_place", "ladder", "land",
           "land_bytes", "last_over_first", "latencies", "latency_chart", "latency_table", "launch_access",
           "launch_attention", "launch_attention_fp8", "launch_choice", "launch_cluster", "launch_columns",
           "launch_counters", "launch_cpp_pipeline", "launch_fragment", "launch_groups", "launch_im2col",
           "launch_multistage", "launch_on_roof", "launch_operands", "launch_pipeline", "launch_queue",
           "launch_raster", "launch_reduce", "launch_roles", "launch_scales", "launch_schedule", "launch_stepper",
           "launch_tile", "launch_warp_roles", "layout_picture", "layouts_table", "lead", "leaderboard", "lines",
           "lines_named", "listing", "littles_law", "load_matrix", "loads_in_flight", "machine_map", "major_rates",
           "mbarrier_stepper", "memory_latency", "metric_words", "mma_map", "mma_words", "multiply_operands",
           "multiply_tile", "needed", "needs_of", "once_table", "one_tile_operands", "operand_builds", "operand_costs",
           "operand_numbers", "order_diagram", "OUTLIERS", "output_shape", "overlap_chart", "overlap_table",
           "overlaps", "own_load_cost", "owner_words", "Panel", "panel", "percent_of_peer", "picks_table", "Picture",
           "pipeline_chart", "pipeline_table", "Point", "power_table", "predict", "profile_chart", "profile_table",
           "promotion_cost", "promotion_picture", "raster_map", "rates_chart", "read_columns", "reduce_tile",
           "reduced", "reduction_rates", "reference_box", "registers_at_entry", "remaining", "reuse_table",
           "ring_counts", "ring_plan", "ring_run", "ring_spans", "ring_timeline", "role_build", "role_instructions",
           "ROLES", "roles_chart", "roles_gains", "roles_table", "roofline", "run_article", "run_attention",
           "run_attention_fp8", "run_choice", "run_cluster", "run_fp8", "run_fused", "run_grouped", "run_pipeline",
           "run_places", "run_product", "run_queue", "run_schedule", "run_stream_k", "run_tile", "run_way",
           "same_counts", "sass", "SCALES", "scales_table", "schedule_model", "schedule_timeline", "shapes_chart",
           "sharing_table", "SLICES", "Slider", "small_shape", "source", "Span", "speed_left", "stage_diagram",
           "stage_plan", "stage_times", "stages_chart", "step_map", "step_table", "step_times", "step_words",
           "steps_table", "store_table", "sums_beside", "swizzle_cost", "swizzle_reads", "swizzled_tile",
           "symptoms_table", "tail_table", "terms_table", "tile_order", "tile_table", "tile_traffic",
           "tile_traffic_fp8", "tiles_on_way", "tiles_table", "time_by_warp", "timeline", "Times", "timing_lesson",
           "trace_roles", "traffic_table", "turns", "turns_words", "type_rates", "types_table", "unit_map",
           "verdict_chart", "verdicts", "vote", "waiting_share", "walk", "walk_picture", "wavefronts",
           "wavefronts_beside", "wavefronts_of", "waves_chart", "waves_table", "way_source", "WAYS", "ways_chart",
           "ways_table", "wgmma_groups", "wgmma_rates", "whence", "where_from", "width_chart", "work_map", "wrapper",
           "write_groups"]
