"""The exercises by lesson: each lesson_NN.py lists its EXERCISES (inputs, reference, launch, requirements)."""
